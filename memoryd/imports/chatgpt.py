"""The data export of ChatGPT: `conversations.json`, or `conversations-000.json` and so on, in a
folder, a zip file, or one of the files alone.

A conversation is a tree of messages. What the user sees is the way from its root to the current
message; other branches are answers that were made again, and left out. An export has no list of
what ChatGPT remembers. Facts are what it wrote into its own memory (messages to `bio`), the
memories that a conversation began with, and the custom instructions; each text once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memoryd.imports.bundle import Bundle
from memoryd.imports.json_stream import first_item, items
from memoryd.imports.rows import (
    ASSISTANT,
    USER,
    Found,
    Maker,
    Row,
    Skipped,
    broken,
    derived_id,
    moment,
)

NAME = "chatgpt"
CONVERSATIONS, TREE = "conversations*.json", "mapping"
WRITTEN = ("text", "multimodal_text")  # content of messages that people read
BIO = "bio"  # the tool that writes into ChatGPT's own memory
# Facts that a conversation began with, by type of content; the kind of those in each field.
CONTEXT: dict[str, dict[str, str | None]] = {
    "user_editable_context": {"user_profile": None, "user_instructions": "preference"},
    "model_editable_context": {"model_set_context": None},
}
FENCED = re.compile(r"```[a-z]*\n?(.*?)```", re.S)  # what ChatGPT puts around custom instructions
NUMBERED = re.compile(r"^\s*\d+\.\s*(?:\[[^\]\n]*\]\.?\s*)?", re.M)
# Marks of citations, which ChatGPT shows as links: in private characters, or in these brackets.
CITATION = re.compile("[ \\t]*\ue200[^\ue201]*\ue201|\u3010\\d+(?::\\d+)?\u2020[^\u3011]*\u3011")
LOOKED_AT = 20  # files, to recognise an export


def fits(bundle: Bundle) -> bool:
    """Whether an export is of ChatGPT, by the first conversation of one of its files."""
    for name in _files(bundle)[:LOOKED_AT]:
        with bundle.open(name) as file:
            first = first_item(file, name)
        if isinstance(first, dict) and isinstance(first.get(TREE), dict):
            return True
    return False


def read(path: Path) -> Found:
    """The messages of an export, as the user saw them."""
    bundle = Bundle(path)
    known: set[str] = set()
    for name in _files(bundle):
        maker = Maker(NAME, bundle.time(name))
        with bundle.open(name) as file:
            for place, item in enumerate(items(file, name), start=1):
                where = f"{name}, item {place}"
                if isinstance(item, Skipped):
                    yield item
                elif not isinstance(item, dict) or not isinstance(item.get(TREE), dict):
                    yield broken(where, "not a conversation")
                else:
                    yield from _conversation(maker, item, where, known)


def _files(bundle: Bundle) -> list[str]:
    return bundle.names if len(bundle.names) == 1 else bundle.named(CONVERSATIONS)


def _conversation(maker: Maker, item: dict[str, Any], where: str, known: set[str]) -> Found:
    """The messages of a conversation. `known`: ids of facts that others began with, which it adds
    to."""
    path = _path(item)
    session = item.get("conversation_id") or item.get("id")
    if not isinstance(session, str) or not session:
        session = derived_id(NAME, item.get("title"), item.get("create_time"))
    other = sum(isinstance(n, dict) and bool(n.get("message")) for n in item[TREE].values())
    other -= sum(bool(node.get("message")) for _, node in path)
    if other > 0:
        yield Skipped("answers that were made again", count=other)
    time = moment(item.get("create_time"))
    for order, (key, node) in enumerate(path):
        message = node.get("message")
        if isinstance(message, dict):
            time = moment(message.get("create_time")) or time
            if facts := list(_context(maker, message, where)):
                yield from (fact for fact in facts if fact.id not in known)
                known.update(fact.id for fact in facts)
            else:
                yield _message(maker, message, key, time, session, order, item, where)


def _path(item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The messages from the root to the current one; without a current one, to the last message
    that has no answer."""
    tree = item[TREE]
    key = item.get("current_node")
    if not isinstance(key, str) or not isinstance(tree.get(key), dict):
        ends = [
            k for k, node in tree.items() if isinstance(node, dict) and not node.get("children")
        ]
        key = ends[-1] if ends else None
    path: dict[str, dict[str, Any]] = {}
    while isinstance(key, str) and key not in path and isinstance(tree.get(key), dict):
        path[key] = tree[key]
        key = tree[key].get("parent")
    return list(reversed(path.items()))


def _context(maker: Maker, message: dict[str, Any], where: str) -> Iterator[Row]:
    """The facts that a conversation began with, if the message has them. The same ones are in every
    conversation, so their ids are made of their texts, and they have no time of their own."""
    content = message.get("content")
    if not isinstance(content, dict):
        return
    for field, kind in CONTEXT.get(str(content.get("content_type")), {}).items():
        given = content.get(field)
        text = given if isinstance(given, str) else ""
        fenced = FENCED.search(text)
        text = fenced[1] if fenced else text
        for fact in NUMBERED.split(text) if NUMBERED.match(text) else [text]:
            if said := fact.strip():
                yield maker.fact(derived_id(NAME, said), said, where=where, kind=kind)


def _message(
    maker: Maker, message: dict[str, Any], key: str, time: float | None, session: str, order: int,
    item: dict[str, Any], where: str,
) -> Row | Skipped:  # fmt: skip
    author, content = message.get("author"), message.get("content")
    role = author.get("role") if isinstance(author, dict) else None
    about, recipient = message.get("metadata"), message.get("recipient")
    text = _text(content)
    given: dict[str, Any] = {"where": where, "metadata": {"title": item.get("title")}}
    id = message.get("id") if isinstance(message.get("id"), str) else key
    if role == ASSISTANT and recipient == BIO and text:
        given["metadata"]["original_session"] = session
        return maker.fact(str(id), text, time, **given)
    if isinstance(about, dict) and about.get("is_visually_hidden_from_conversation"):
        return Skipped("hidden messages")
    if role not in (USER, ASSISTANT) or recipient not in (None, "all"):
        return Skipped("messages of tools and of the system")
    if not isinstance(content, dict) or content.get("content_type") not in WRITTEN:
        return Skipped("thoughts, code that was run, and other content")
    text = f"{text}{_attached(about)}".strip()
    if not text:
        return Skipped("messages without text")
    return maker.message(str(id), text, time, session=session, role=str(role), order=order, **given)


def _text(content: object) -> str:
    if not isinstance(content, dict):
        return ""
    parts = content.get("parts")
    if not isinstance(parts, list):
        parts = [content.get("text")]
    said = (_part(part).strip() for part in parts)
    return CITATION.sub("", "\n\n".join(text for text in said if text)).strip()


def _part(part: object) -> str:
    """The text of a part: it is one, or has one, such as the transcript of what was spoken. Images
    and sounds have none."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else ""


def _attached(about: object) -> str:
    """The names of attached files, as lines."""
    given = about.get("attachments") if isinstance(about, dict) else None
    names = [
        file.get("name") for file in (given if isinstance(given, list) else [])
        if isinstance(file, dict)
    ]  # fmt: skip
    return "".join(f"\n[attached: {name}]" for name in names if isinstance(name, str) and name)
