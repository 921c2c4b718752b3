"""The data export of Claude: `conversations.json`, `memories.json` and the projects, in a folder, a
zip file, or one of the files alone.

Messages become messages of a session for each conversation, its summary a fact. What Claude wrote
down about the user and about each project becomes facts, one for each section, and so do the
description and the instructions of a project. Documents of projects are left out.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from memoryd.imports.bundle import Bundle
from memoryd.imports.json_stream import first_item, items
from memoryd.imports.rows import ASSISTANT, USER, Found, Maker, Skipped, broken, derived_id

NAME = "claude"
CONVERSATIONS, MEMORIES, PROJECTS = "conversations*.json", "memories*.json", "projects*.json"
PATTERNS = (CONVERSATIONS, MEMORIES, "memories/*.json", PROJECTS, "projects/*.json")
MESSAGES, ABOUT_USER, ABOUT_PROJECTS = "chat_messages", "conversations_memory", "project_memories"
ROLES = {"human": USER, "user": USER, "assistant": ASSISTANT}
SAID = ("text", "voice_note")  # blocks of a message with what somebody said
# What `text` has in place of a block that is no text, such as the use of a tool.
NOT_SHOWN = re.compile(r"```\s*This block is not supported on your current device yet\.\s*```")
HEADING = re.compile(r"^(?:#{1,6} .+|\*\*[^*\n]+\*\*:?)\s*$", re.M)


def fits(bundle: Bundle) -> bool:
    """Whether an export is of Claude, by the first item of its conversations or memories."""
    for name in _files(bundle):
        with bundle.open(name) as file:
            first = first_item(file, name)
        if isinstance(first, dict) and first.keys() & {MESSAGES, ABOUT_USER, ABOUT_PROJECTS}:
            return True
    return False


def read(path: Path) -> Found:
    """The messages and memories of an export."""
    bundle = Bundle(path)
    projects = _project_names(bundle)
    for name in _files(bundle):
        maker = Maker(NAME, bundle.time(name))
        with bundle.open(name) as file:
            for place, item in enumerate(items(file, name), start=1):
                where = f"{name}, item {place}"
                if isinstance(item, Skipped):
                    yield item
                elif not isinstance(item, dict):
                    yield broken(where, "not a JSON object")
                elif MESSAGES in item:
                    yield from _conversation(maker, item, projects, where)
                elif ABOUT_USER in item or ABOUT_PROJECTS in item:
                    yield from _memories(maker, item, projects, where)
                elif "docs" in item or "prompt_template" in item:
                    yield from _project(maker, item, where)


def _files(bundle: Bundle) -> list[str]:
    if len(bundle.names) == 1:  # one file that was named, whatever it is called
        return bundle.names
    return list(dict.fromkeys(name for pattern in PATTERNS for name in bundle.named(pattern)))


def _project_names(bundle: Bundle) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in (*bundle.named(PROJECTS), *bundle.named("projects/*.json")):
        with bundle.open(name) as file:
            for item in items(file, name):
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    found[str(item.get("uuid"))] = item["name"]
    return found


def _conversation(
    maker: Maker, item: dict[str, Any], projects: dict[str, str], where: str
) -> Found:
    messages, id = item[MESSAGES], item.get("uuid")
    if not isinstance(messages, list) or not isinstance(id, str):
        yield broken(where, "a conversation without an id or messages")
        return
    project = item.get("project")
    of = project.get("uuid") if isinstance(project, dict) else item.get("project_uuid")
    if isinstance(summary := item.get("summary"), str) and summary.strip():
        yield maker.fact(
            derived_id(NAME, "summary", id),
            summary,
            item.get("updated_at") or item.get("created_at"),
            where=where,
            kind="session_summary",
            project=projects.get(str(of)),
            metadata={"title": item.get("name"), "original_session": id},
        )
    for order, message in enumerate(messages):
        role = ROLES.get(str(message.get("sender"))) if isinstance(message, dict) else None
        if role is None:
            yield broken(f"{where}, message {order + 1}", "a message without a known sender")
        elif not (text := _text(message)):
            yield Skipped("messages without text")
        else:
            uuid = message.get("uuid")
            yield maker.message(
                uuid if isinstance(uuid, str) and uuid else derived_id(NAME, id, order),
                text,
                message.get("created_at") or item.get("created_at"),
                session=id,
                role=role,
                order=order,
                where=f"{where}, message {order + 1}",
                project=projects.get(str(of)),
                metadata={"title": item.get("name")},
            )


def _text(message: dict[str, Any]) -> str:
    """What was written, and the names of attached files."""
    blocks = message.get("content")
    said = [
        block["text"]
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict) and block.get("type") in SAID
        and isinstance(block.get("text"), str)
    ]  # fmt: skip
    text = "\n\n".join(said).strip()
    if not text and isinstance(plain := message.get("text"), str):
        text = NOT_SHOWN.sub("", plain).strip()
    for key in ("attachments", "files"):
        given = message.get(key)
        for file in given if isinstance(given, list) else []:
            name = file.get("file_name") if isinstance(file, dict) else None
            if isinstance(name, str) and name:
                text = f"{text}\n[attached: {name}]".strip()
    return text


def _project(maker: Maker, item: dict[str, Any], where: str) -> Found:
    """What the owner wrote about a project, and how many documents it has."""
    name = item.get("name")
    for key in ("description", "prompt_template"):
        if isinstance(text := item.get(key), str) and text.strip():
            yield maker.fact(
                derived_id(NAME, item.get("uuid"), key),
                text,
                item.get("created_at"),
                updated_at=item.get("updated_at"),
                where=where,
                project=name,
                metadata={"title": name},
            )
    if isinstance(docs := item.get("docs"), list) and docs:
        yield Skipped("documents of projects", count=len(docs))


def _memories(maker: Maker, item: dict[str, Any], projects: dict[str, str], where: str) -> Found:
    yield from _sections(maker, item.get(ABOUT_USER), "", None, where)
    of_projects = item.get(ABOUT_PROJECTS)
    for uuid, text in of_projects.items() if isinstance(of_projects, dict) else ():
        yield from _sections(maker, text, uuid, projects.get(uuid, uuid), where)
    if isinstance(files := item.get("memory_files"), list) and files:
        yield Skipped("memory files, whose form is not known", where, len(files))


def _sections(
    maker: Maker, text: object, uuid: str, project: str | None, where: str
) -> Found:  # fmt: skip
    """A fact for each section of what Claude wrote down; the whole text if it has no headings."""
    if not isinstance(text, str):
        return
    starts = [0, *(found.start() for found in HEADING.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if section := text[start:end].strip():
            yield maker.fact(derived_id(NAME, uuid, section), section, where=where, project=project)
