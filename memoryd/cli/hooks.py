"""The verbs `hook --explain` and `pushes`. The hook itself is in `memoryd.hook`: it is quicker."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from memoryd.cli.options import UsageError
from memoryd.cli.output import BOLD, DIM, clean, moment, paint, say, say_json
from memoryd.cli.target import where
from memoryd.client.owner import Candidate, ExplainedPush, ListedPush, ListedPushes, OwnerClient
from memoryd.project_folder import own_project


def hook(options: argparse.Namespace) -> int:
    """Show what a prompt would get, and why."""
    if options.explain is None:
        raise UsageError("EVENT is missing.", hint="Run: memoryd hook --help")
    found = asyncio.run(_explain(options))
    if options.json:
        say_json(found)
        return 0
    say(paint(f"Project: {clean(found['project'] or 'none')}", DIM))
    for candidate in found["candidates"]:
        say(_line(candidate))
    say(clean(found["text"]) if found["text"] else f"Nothing is pushed. {clean(found['reason'])}")
    return 0


def pushes(options: argparse.Namespace) -> int:
    """Show what hooks put into prompts, newest first."""
    found = asyncio.run(_pushes(options))
    if options.json:
        say_json(found)
        return 0
    for push in found["pushes"]:
        say(_push_line(push))
    total = found["total"]
    say(f"{total} push{'' if total == 1 else 'es'}, {found['tokens']} tokens.")
    return 0


async def _explain(options: argparse.Namespace) -> ExplainedPush:
    given: dict[str, Any] = {"session_id": options.session, "cwd": os.getcwd()}
    project, is_given = own_project(options.project)
    if is_given:
        given |= {"project": project} if project else {"no_project": True}
    async with _connect(options) as client:
        return await client.explain_push(options.explain, **given)


async def _pushes(options: argparse.Namespace) -> ListedPushes:
    async with _connect(options) as client:
        return await client.list_pushes(options.session, options.limit)


def _connect(options: argparse.Namespace) -> OwnerClient:
    return OwnerClient(**where(options), start=True)


def _line(candidate: Candidate) -> str:
    head = f"{candidate['score']:.2f}  {candidate['id']}"
    why = "pushed" if candidate["pushed"] else candidate["refused"]
    text = " ".join(clean(candidate["content"]).split())
    return f"{head}  {paint(clean(why), BOLD if candidate['pushed'] else DIM)}  {text[:80]}"


def _push_line(push: ListedPush) -> str:
    parts = (
        moment(push["at"]),
        paint(clean(push["session_id"]), DIM),
        f"{clean(push['event'])} ({clean(push['why'])})",
        f"{push['tokens']} tokens",
        " ".join(map(clean, push["ids"])),
    )
    return "  ".join(parts)
