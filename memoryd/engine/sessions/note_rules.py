"""What holds for every note, whichever operation changes it: store, update, import or its own.

A note has one name and any number of aliases, and no other memory has any of them. It stays a fact
with a name that does not expire, until it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from memoryd.audience import scope_of
from memoryd.engine import checks
from memoryd.engine.index.index import Index
from memoryd.errors import InvalidInput
from memoryd.fields import ALIASES, SEQ, aliases_of, handles_of, is_note
from memoryd.labels import folded_name
from memoryd.model import CONTEXT_NAME, Memory, is_expired

WHAT = "a fact with a name, of kind note or archive, that does not expire"


def check_stays_note(before: Memory, after: Memory) -> None:
    """Raise InvalidInput if a change would make something else of a note."""
    if is_note(before) and not is_note(after):
        raise InvalidInput(
            f"{before.name!r} is a note: {WHAT}.",
            code="note_invalid",
            hint="Leave out what would change this, or remove the note first.",
        )


def check_handles_are_free(index: Index, memory: Memory, now: float) -> None:
    """Raise InvalidInput if another memory of the same audience has the name of a note, or one of
    its aliases."""
    for handle in handles_of(memory):
        for owner in index.named_alike(handle):
            if scope_of(owner) != scope_of(memory):
                continue
            if owner.id != memory.id and not is_expired(owner, now):
                raise InvalidInput(
                    f"The name {handle!r} is taken by {_owner(owner)}.",
                    code="name_taken",
                    hint="Choose another name, or rename or remove that one.",
                )


def _owner(owner: Memory) -> str:
    return f"the note {owner.name!r}" if is_note(owner) else f"the memory {owner.id}"


def checked_handle(value: object, index: Index, what: str = "name") -> str:
    """A name or an alias for a note. Raises InvalidInput."""
    name = checks.label(value, "name")
    if name is None:
        raise InvalidInput(f"A note needs a {what}.", code="name_invalid", hint="Give a text.")
    if index.get(name) is not None or folded_name(name).startswith(CONTEXT_NAME):
        raise InvalidInput(
            f"{name!r} cannot be the name of a note: it is an id, or begins with {CONTEXT_NAME!r}.",
            code="name_invalid",
            hint="Choose another name.",
        )
    return name


def check_imported(memory: Memory) -> None:
    """Raise InvalidInput if an imported memory has the fields of a note and is none."""
    if SEQ not in memory.metadata and ALIASES not in memory.metadata:
        return
    handles = handles_of(memory)
    wrong = [handle for handle in handles if folded_name(handle).startswith(CONTEXT_NAME)]
    wrong += [handle for handle in handles if checks.label(handle, "name") != handle]
    if not is_note(memory) or wrong:
        raise InvalidInput(
            f"It has the fields {SEQ!r} and {ALIASES!r} of a note, but a note is {WHAT}.",
            code="note_invalid",
            hint="Remove these fields, or correct the others.",
        )


def with_aliases(memory: Memory, aliases: Iterable[str]) -> Memory:
    """The memory with these aliases, each once and none equal to its name."""
    known = {folded_name(memory.name or "")}
    kept: list[str] = []
    for alias in aliases:
        if (folded := folded_name(alias)) not in known:
            known.add(folded)
            kept.append(alias)
    metadata = {key: value for key, value in memory.metadata.items() if key != ALIASES}
    return replace(memory, metadata=metadata | ({ALIASES: kept} if kept else {}))


def has_handle(memory: Memory, name: str) -> bool:
    """Whether a note has this name or alias."""
    return folded_name(name) in {folded_name(handle) for handle in handles_of(memory)}


def has_alias(memory: Memory, name: str) -> bool:
    return folded_name(name) in {folded_name(alias) for alias in aliases_of(memory)}
