"""`memoryd projects`: list them; rename, merge, move and forget."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from memoryd.cli.forget import forget_all, preview
from memoryd.cli.options import UsageError
from memoryd.cli.output import BOLD, age, clean, complain, counted, paint, say, say_json
from memoryd.cli.store import require_store
from memoryd.cli.target import where
from memoryd.client.owner import OwnerClient
from memoryd.client.projects import ProjectFacts
from memoryd.errors import InvalidInput, NotFound
from memoryd.labels import normal_name
from memoryd.project_folder import own_project

SHARED = "(shared)"
# How many names each action takes; None: any number.
ACTIONS = {"list": 0, "rename": 2, "merge": 2, "move": None, "forget": 1}


def projects(options: argparse.Namespace) -> int:
    """Run one action, by default `list`."""
    action = options.action or "list"
    _check_usage(action, options)
    verbs: dict[str, Callable[[argparse.Namespace], Any]] = {
        "list": _list,
        "rename": _rename,
        "merge": _merge,
        "move": _move,
        "forget": _forget,
    }
    return int(asyncio.run(verbs[action](options)))


def _check_usage(action: str, options: argparse.Namespace) -> None:
    needed = ACTIONS[action]
    if needed is not None and len(options.names) != needed:
        what = ("no name", "one name", "two names")[needed]
        raise UsageError(f"projects {action} takes {what}.", hint="Run: memoryd projects --help")
    if action == "move" and (not options.names or bool(options.to) == options.shared):
        raise UsageError(
            "projects move takes memories, and --to NAME or --shared.",
            hint="Run: memoryd projects --help",
        )


def connect(options: argparse.Namespace) -> OwnerClient:
    """The daemon, started if none runs."""
    return OwnerClient(**where(options), start=True, project=own_project()[0])


async def _list(options: argparse.Namespace) -> int:
    async with connect(options) as daemon:
        found = await daemon.projects.list()
    if options.json:
        say_json(found)
        return 0
    now = datetime.now(UTC)
    width = max((len(_shown(facts)) for facts in found["projects"]), default=0)
    for facts in found["projects"]:
        is_own = facts["project"] is not None and facts["project"] == found["own"]
        name = _shown(facts).ljust(width)
        types = ", ".join(f"{count} {type}" for type, count in sorted(facts["types"].items()))
        newest = age({"created_at": facts["newest"]}, now)
        say(f"{'*' if is_own else ' '} {paint(name, BOLD)}  {types}, newest {newest}")
    if not found["projects"]:
        say("No memories.")
    return 0


def _shown(facts: ProjectFacts) -> str:
    return SHARED if facts["project"] is None else clean(facts["project"])


async def _rename(options: argparse.Namespace) -> int:
    name, to = options.names
    async with connect(options) as daemon:
        moved = await daemon.projects.rename(name, to)
    return _tell_moved(options, moved, f"Renamed {clean(name)} to {clean(to)}: {counted(moved)}.")


async def _merge(options: argparse.Namespace) -> int:
    name, into = options.names
    async with connect(options) as daemon:
        moved = await daemon.projects.merge(name, into)
    sentence = f"Merged {counted(moved)} of {clean(name)} into {clean(into)}."
    return _tell_moved(options, moved, sentence)


def _tell_moved(options: argparse.Namespace, moved: int, sentence: str) -> int:
    if options.json:
        say_json({"moved": moved})
    else:
        say(sentence)
    return 0


async def _move(options: argparse.Namespace) -> int:
    """Exit code 1 if a memory was not found."""
    async with connect(options) as daemon:
        done = await daemon.projects.move(options.names, options.to)
    if options.json:
        say_json(done)
        return 1 if done["missing"] else 0
    for id in done["missing"]:
        complain(NotFound(f"There is no memory {id!r}."))
    where_to = clean(options.to) if options.to else "shared memory"
    say(f"Moved {counted(done['moved'])} to {where_to}.")
    return 1 if done["missing"] else 0


async def _forget(options: argparse.Namespace) -> int:
    """Delete all memories of a project; asks first."""
    require_store(options)
    name = normal_name(options.names[0])
    chosen = {"metadata": {"project": name}}
    async with connect(options) as daemon:
        found = await daemon.forget_where(**chosen, dry_run=True)
        if not found["matched"]:
            raise NotFound(f"There is no project {name!r}.", hint="Run: memoryd projects")
        if options.dry_run:
            preview(found, options)
            return 0
        if not options.yes:
            if not options.json:
                preview(found, options)
            _confirm(name, found["matched"])
        gone = await forget_all(daemon, found["matched"], chosen)
    if options.json:
        say_json({"matched": found["matched"], "forgotten": gone, "dry_run": False})
    else:
        say(f"Forgot {counted(gone)}.")
    return 0


def _confirm(name: str, count: int) -> None:
    """Raise InvalidInput unless the user types what is asked for."""
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"This would forget {counted(count)}, and there is no terminal to confirm it on.",
            code="not_confirmed",
            hint="Add --yes.",
        )
    asked = f"forget {name}"
    sys.stderr.write(f"This deletes the whole project for good. Type '{asked}' to go on: ")
    sys.stderr.flush()
    if normal_name(sys.stdin.readline()) != asked:
        raise InvalidInput(
            "Not confirmed; nothing was forgotten.",
            code="not_confirmed",
            hint=f"Type '{asked}' exactly, or add --yes.",
        )
