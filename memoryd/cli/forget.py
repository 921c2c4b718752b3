"""`memoryd forget`: delete by id, by name, by filter, or everything."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memoryd.cli.memories import notes
from memoryd.cli.options import selection
from memoryd.cli.output import (
    DIM,
    age,
    clean,
    complain,
    counted,
    error_facts,
    paint,
    remaining,
    say,
    say_json,
)
from memoryd.cli.progress import Progress
from memoryd.cli.store import require_store
from memoryd.cli.target import where
from memoryd.client.owner import ForgetResult, OwnerClient
from memoryd.client.types import Memory
from memoryd.errors import InvalidInput, NotFound

CONFIRMATION = "forget everything"
MATCH_NOTHING = {"since": 1, "until": 0}  # a filter that no memory can match
PREVIEW_CHARS = 70  # characters of each memory in a preview


def forget(options: argparse.Namespace) -> int:
    """Delete memories for good, or with --dry-run show which; exit code 1 if one was not found."""
    chosen = selection(options)
    if options.memories and (chosen or options.everything):
        raise InvalidInput(
            "Both memories and a filter were given.",
            code="filter_with_names",
            hint="Name memories or give a filter, not both.",
        )
    if options.memories:
        require_store(options)
        return asyncio.run(_forget_each(options))
    if not chosen and not options.everything:
        raise InvalidInput(
            "Nothing to forget was named.",
            code="filter_empty",
            hint="Name memories, give a filter such as --older-than 30d, or use --everything.",
        )
    require_store(options)
    return asyncio.run(_forget_where(options, chosen))


def connect(options: argparse.Namespace, timeout: float = 60.0) -> OwnerClient:
    """The daemon, started if none runs."""
    return OwnerClient(**where(options), start=True, timeout=timeout)


async def _forget_each(options: argparse.Namespace) -> int:
    code = 0
    async with connect(options) as daemon:
        if options.purge:  # checked first: if a purge is not possible, forget nothing
            await daemon.forget_where(**MATCH_NOTHING, dry_run=True, purge=True)
        for wanted in options.memories:
            if not await _forget_one(daemon, wanted, options):
                code = 1
        if options.purge and not options.dry_run:
            await daemon.forget_where(**MATCH_NOTHING, purge=True)
    return code


async def _forget_one(daemon: OwnerClient, wanted: str, options: argparse.Namespace) -> bool:
    """Forget one memory, or with --dry-run show it; whether it exists."""
    answer: dict[str, Any]
    if options.dry_run:
        found = await daemon.get(wanted)
        is_there, sentence = found is not None, f"Would forget {_line(found)}" if found else ""
        answer = {"exists": is_there, "id": found["id"] if found else wanted}
    else:
        answer = {**await daemon.forget(wanted)}
        is_there, sentence = answer["success"], f"Forgot {clean(wanted)}"
    missing = NotFound(f"There is no memory {wanted!r}.")
    if options.json:
        say_json(answer if is_there else answer | {"error": error_facts(missing)})
    elif is_there:
        notes(answer.get("warnings", []))
        say(sentence)
    else:
        complain(missing)
    return is_there


async def _forget_where(options: argparse.Namespace, chosen: Mapping[str, Any]) -> int:
    how: dict[str, Any] = {"everything": True} if options.everything else {}
    how |= {"purge": True} if options.purge else {}
    async with connect(options) as daemon:
        before = await daemon.forget_where(dry_run=True, **chosen, **how)
        if options.dry_run:
            preview(before, options)
            return 0
        if options.everything and not options.yes:
            _confirm(before["matched"])
        gone = await forget_all(daemon, before["matched"], {**chosen, **how})
    if options.json:
        facts = {"matched": before["matched"], "forgotten": gone, "types": before["types"]}
        say_json(facts | {"dry_run": False})
    else:
        say(f"Forgot {_counted(gone, before['types'] if gone == before['matched'] else {})}.")
    return 0


async def forget_all(daemon: OwnerClient, matched: int, call: Mapping[str, Any]) -> int:
    """Forget in batches, so that no call takes long; at most `matched`, as new ones may come."""
    gone = 0
    with Progress("Forgetting", matched) as progress:
        while True:
            done = await daemon.forget_where(**call)
            gone += done["forgotten"]
            progress.at(gone)
            if done["forgotten"] in (0, done["matched"]) or gone >= matched:
                return gone


def preview(result: ForgetResult, options: argparse.Namespace) -> None:
    """Say what would be forgotten."""
    if options.json:
        say_json({**result, "dry_run": True})
        return
    say(f"Would forget {_counted(result['matched'], result['types'])}.")
    for memory in result["first"]:
        say(f"  {_line(memory)}")
    if (more := result["matched"] - len(result["first"])) > 0:
        say(f"  and {more} more")


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"This would forget {counted(count)}, and there is no terminal to confirm it on.",
            code="not_confirmed",
            hint="Add --yes.",
        )
    sys.stderr.write(f"This deletes every memory for good ({counted(count)}).\n")
    sys.stderr.write(f"Type '{CONFIRMATION}' to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != CONFIRMATION:
        raise InvalidInput(
            "Not confirmed; nothing was forgotten.",
            code="not_confirmed",
            hint=f"Type '{CONFIRMATION}' exactly, or add --yes.",
        )


def _counted(count: int, types: Mapping[str, int]) -> str:
    each = ", ".join(f"{number} {type}" for type, number in sorted(types.items()))
    return counted(count) + (f" ({each})" if each else "")


def _line(memory: Memory) -> str:
    now = datetime.now(UTC)
    text = " ".join(clean(memory["content"]).split())
    short = text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"
    when = f"{memory['type']}, {age(memory, now)}, {remaining(memory, now)}"
    return f"{paint(memory['id'], DIM)}  {when}: {short}"
