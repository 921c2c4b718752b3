"""What a daemon without an index refuses, and what it offers."""

from __future__ import annotations

from typing import Any, NoReturn

from memoryd.errors import NeedsFullIndex

# The calls of doors that work without an index; all others are refused.
OFFERED = frozenset(
    {
        "store_memory",
        "search_memories",
        "forget_memory",
        "list_memories",
        "update_memory",
        "memory_chain",
        "add_turn",
        "get_context",
        "working_memory",
        "clear_context",
        "read_memory",
        "read_memories",
        "tag_memories",
        "set_memories",
        "forget_by_ids",
        "export_selection",
        "import_memories",
        "import_rows",
        "sweep",
        "backup",
        "purge",
    }
)


def refusal(what: str) -> NeedsFullIndex:
    """The error for something that needs all memories."""
    return NeedsFullIndex(f"{what} needs all memories in RAM, and this daemon has none of them.")


class Refused:
    """In the place of a part of the engine: whatever is asked of it is refused."""

    def __init__(self, what: str, **known: Any) -> None:
        """`known`: attributes that are there all the same."""
        self._what = what
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> NoReturn:
        raise refusal(self._what)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(self._what)
