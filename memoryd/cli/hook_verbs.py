"""The verbs `hook` and `pushes` with their flags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memoryd.cli import options as values
from memoryd.cli.options import Parser
from memoryd.hook_events import CLIENTS, EVENTS


def add_hook_verbs(
    verbs: Any, add: Callable[[Any, str, str, str], Parser], add_json: Callable[..., None]
) -> None:
    """Add them. `add` adds one verb, `add_json` its flag --json."""
    hook = add(verbs, "hook", "hooks:hook", "answer an event of an agent's client, or explain it")
    hook.add_argument("event", metavar="EVENT", nargs="?", help=", ".join(EVENTS))
    hook.add_argument("--client", metavar="NAME", help=", ".join(CLIENTS))
    hook.add_argument("--explain", metavar="PROMPT", help="show what a prompt would get, and why")
    hook.add_argument("--session", metavar="ID", help="explain: without what this session has")
    hook.add_argument(
        "--project", metavar="NAME", help="without it, that of the git checkout; empty: none"
    )
    pushes = add(verbs, "pushes", "hooks:pushes", "show what hooks put into prompts, and why")
    pushes.add_argument("--session", metavar="ID", help="only of this session")
    pushes.add_argument("--limit", type=values.whole, metavar="N", help="how many at most")
    add_json(hook, pushes)
