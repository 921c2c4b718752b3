"""`memoryd chat-log`: a session as a conversation, with the archives of its earlier parts."""

from __future__ import annotations

import argparse
import asyncio
import difflib
from collections.abc import Sequence
from typing import NamedTuple

from memoryd.cli.memories import connect
from memoryd.cli.output import clean, exact, is_terminal, say, say_json
from memoryd.client import Client
from memoryd.client.session_types import ListedSession, Marker, ReadSession
from memoryd.client.types import Message
from memoryd.errors import InvalidInput, NotFound
from memoryd.recall_text import message_line

PAGE = 1000  # messages of one call, and sessions of a list
NEAREST = 3  # sessions that an error names


def chat_log(options: argparse.Namespace) -> int:
    """Show all messages of a session that are still there, or the last ones."""
    found, archives = asyncio.run(_read(options))
    if options.json:
        say_json({**found, "archive_texts": archives})
    elif is_terminal():
        from memoryd.cli.screen.conversation import show

        show(found, archives)
    else:
        _print(found, archives)
    return 0


async def _read(options: argparse.Namespace) -> tuple[ReadSession, dict[str, str]]:
    """The session, and the text of each of its archives by id."""
    async with connect(options) as client:
        found = await _find(client, options.session)
        await _fill(client, found, options.limit)
        archives = {}
        for marker in found["markers"]:
            if (archive := await client.get(marker["archive_id"])) is not None:
                archives[marker["archive_id"]] = archive["content"]
    return found, archives


async def _find(client: Client, wanted: str) -> ReadSession:
    """The session of this id or title, or whose id or title begins so. Raises NotFound, or
    InvalidInput if several do."""
    found = await client.sessions.read(wanted, limit=1)
    if found["turns"] or found["title"] or found["identity"]:
        return found
    known = (await client.sessions.list(limit=PAGE))["sessions"]
    for matching in (_of_title(known, wanted), _beginning(known, wanted)):
        if len(matching) == 1:
            return await client.sessions.read(matching[0]["session_id"], limit=1)
        if matching:
            raise InvalidInput(
                f"{len(matching)} sessions match {wanted!r}.",
                code="session_ambiguous",
                hint=f"Name one of {_named(matching[:NEAREST])}.",
            )
    near = _nearest(known, wanted)
    hint = f"Did you mean {_named(near)}?" if near else "Run: memoryd sessions"
    raise NotFound(f"There is no session {wanted!r}.", hint=hint)


def _of_title(known: Sequence[ListedSession], wanted: str) -> list[ListedSession]:
    return [one for one in known if (one["title"] or "").casefold() == wanted.casefold()]


def _beginning(known: Sequence[ListedSession], wanted: str) -> list[ListedSession]:
    start = wanted.casefold()
    return [
        one
        for one in known
        if one["session_id"].casefold().startswith(start)
        or (one["title"] or "").casefold().startswith(start)
    ]


def _nearest(known: Sequence[ListedSession], wanted: str) -> list[ListedSession]:
    """The sessions with the most similar ids, titles or words of a title, the nearest first."""
    words: dict[str, ListedSession] = {}
    for one in reversed(known):
        title = (one["title"] or "").casefold()
        words |= dict.fromkeys((one["session_id"].casefold(), title, *title.split()), one)
    close = difflib.get_close_matches(wanted.casefold(), words, n=2 * NEAREST, cutoff=0.5)
    near = {words[word]["session_id"]: words[word] for word in close}
    return list(near.values())[:NEAREST]


def _named(sessions: Sequence[ListedSession]) -> str:
    return ", ".join(
        f"{one['session_id']} ({one['title']})" if one["title"] else one["session_id"]
        for one in sessions
    )


async def _fill(client: Client, found: ReadSession, limit: int | None) -> None:
    """Read all messages, or the last `limit`, page by page from the end."""
    messages: list[Message] = []
    before: int | None = None
    while limit is None or len(messages) < limit:
        wanted = PAGE if limit is None else min(PAGE, limit - len(messages))
        page = await client.sessions.read(found["session_id"], limit=wanted, before=before)
        messages = page["messages"] + messages
        if len(page["messages"]) < wanted or not page["messages"][0]["order"]:
            break
        before = page["messages"][0]["order"]
    found["messages"] = messages


class Part(NamedTuple):
    """A message, or a marker."""

    order: float
    message: Message | None = None
    marker: Marker | None = None


def parts(found: ReadSession) -> list[Part]:
    """Messages and markers in order: a marker comes after the last message of its archive, which
    may have expired."""
    first = found["messages"][0]["order"] if found["messages"] else 0
    said = [Part(one["order"], message=one) for one in found["messages"]]
    ends = [Part(max(one["upto"], first - 1) + 0.5, marker=one) for one in found["markers"]]
    return sorted([*said, *ends], key=lambda part: part.order)


def marker_line(marker: Marker) -> str:
    """What became of the messages before a marker."""
    count = marker["messages"]
    messages = "1 message" if count == 1 else f"{count} messages"
    return f"Until here {messages} archived as {clean(marker['archive_name'])}"


def _print(found: ReadSession, archives: dict[str, str]) -> None:
    say(clean(found["title"] or found["session_id"]))
    if found["title"]:
        say(clean(found["session_id"]))
    for _, message, marker in parts(found):
        say()
        if marker:
            say(f"[{marker_line(marker)}, {exact(marker['archived_at'])}]")
            for line in clean(archives.get(marker["archive_id"], "")).splitlines():
                say(f"  {line}".rstrip())
        if message:
            text = clean(message_line(message))
            say("\n".join(line.rstrip() for line in f"[{exact(message['at'])}] {text}".split("\n")))
