"""The tools of the toolset `notes`: read notes, and edit them by one of six actions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import tzinfo
from typing import Any

from memoryd.doors.render import memory
from memoryd.doors.rights import Rights
from memoryd.engine.engine import Engine
from memoryd.errors import InvalidInput
from memoryd.fields import ALIASES, CITATION, KIND, SEQ
from memoryd.model import Memory, Updated
from memoryd.recall_text import NOTICE

Arguments = dict[str, Any]
# By action, the arguments that it needs, and those that it may have.
NEEDS = {
    "add": ("name", "content"),
    "write": ("name", "content"),
    "rename": ("name", "new_name"),
    "alias": ("name", "alias"),
    "unalias": ("alias",),
    "remove": ("name",),
}
MAY_HAVE = {"add": ("aliases", "kind", "metadata"), "rename": ("keep_alias",)}


async def read_notes(engine: Engine, given: Arguments) -> Arguments:
    """One note with its content, or a list without contents."""
    if "name" not in given:
        found = await engine.notes.list_notes(**given)
        listed = [_note(one, engine.zone, whole=False) for one in found.notes]
        return {"notice": NOTICE, "notes": listed, "total": found.total}
    note = await engine.notes.read_note(given.pop("name"))
    if given:
        raise _refused(f"{next(iter(given))} is for lists; a name reads one note.")
    return {"notice": NOTICE, "notes": [_note(note, engine.zone)], "total": 1}


async def edit_notes(engine: Engine, given: Arguments, rights: Rights) -> Arguments:
    action = given.pop("action", None)
    if not isinstance(action, str) or action not in NEEDS:
        raise _refused(
            f"There is no action {str(action)[:50]!r}." if action else "The action is missing."
        )
    _check_arguments(action, given)
    if action == "remove":
        rights.check_forgets(1)
        await engine.notes.remove_note(given["name"])
        return {"action": action, "changed": True, "warnings": []}
    calls: dict[str, Callable[..., Awaitable[Updated]]] = {
        "add": engine.notes.add_note,
        "write": engine.notes.write_note,
        "rename": engine.notes.rename_note,
        "alias": engine.notes.alias_note,
        "unalias": engine.notes.unalias_note,
    }
    done = await calls[action](**given)
    facts = {"action": action, "changed": done.changed, "warnings": list(done.warnings)}
    return facts | {"note": _note(done.memory, engine.zone)}


def _check_arguments(action: str, given: Arguments) -> None:
    for name in NEEDS[action]:
        if name not in given:
            raise _refused(f"{action} needs {name}.", "argument_missing")
    for name in given:
        if name not in (*NEEDS[action], *MAY_HAVE.get(action, ())):
            raise _refused(f"{action} takes no {name}.", "argument_unknown")


def _note(found: Memory, zone: tzinfo | None, *, whole: bool = True) -> Arguments:
    """A note; `whole`: with its content and its metadata, else with a citation."""
    made = memory(found, zone)
    metadata = made["metadata"]
    note = {key: made[key] for key in ("id", "name", "created_at")}
    note |= {
        "aliases": metadata.get(ALIASES, []),
        "seq": metadata[SEQ],
        "kind": metadata[KIND],
    }
    if "updated_at" in made:
        note["updated_at"] = made["updated_at"]
    if not whole:
        return note | {CITATION: metadata.get(CITATION, "")}
    own = (ALIASES, SEQ, KIND, CITATION)
    rest = {key: value for key, value in metadata.items() if key not in own}
    return note | {"content": made["content"], "metadata": rest}


def _refused(message: str, code: str = "action_invalid") -> InvalidInput:
    return InvalidInput(
        message, code=code, hint=f"The actions are {', '.join(NEEDS)}; see the tool's description."
    )
