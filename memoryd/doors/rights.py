"""What a connection may do: everything or only read, and how often it may forget.

With the token of a network door one can search and forget one memory after the other, so a leaked
token endangers all memories. A read token cannot change any of them, and a rate limit on forgets
gives the owner time to notice. The local socket has neither limit.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass

from mcp.types import Tool

from memoryd.doors.limits import Rate, RateLimited
from memoryd.doors.schemas import TOOLS, TOOLSET_OF
from memoryd.errors import MemorydError

READING = frozenset(
    tool.name for tool in TOOLS if tool.annotations and tool.annotations.read_only_hint
)
FORGETTING = frozenset({"forget_memory"})


class ReadOnly(MemorydError):
    """A connection with the read token tried to change something; nothing was changed."""

    code = "read_only"
    hint = "Use the token of doors.token_file, which may write."


@dataclass(frozen=True, slots=True)
class Rights:
    """What a connection may do. `forgets` None: no limit."""

    writes: bool = True
    forgets: Rate | None = None

    def tools(self, toolsets: Sequence[str]) -> list[Tool]:
        """The tools of these toolsets that it may see."""
        asked = [tool for tool in TOOLS if TOOLSET_OF[tool.name] in toolsets]
        return [tool for tool in asked if self.writes or tool.name in READING]

    def check(self, name: str) -> None:
        """Raises ReadOnly or RateLimited if it may not call this tool now; counts a forget."""
        if not self.writes and name not in READING:
            known = ", ".join(sorted(READING))
            raise ReadOnly(f"This token may only read: {known}. {name} was not called.")
        if name in FORGETTING:
            self.check_forgets(1)

    def check_forgets(self, count: int) -> None:
        """Count forgets. Raises RateLimited if so many are not allowed now."""
        if self.forgets is not None and not self.forgets.allows(count):
            raise _too_many_forgets(self.forgets, count)


ALL, NONE = Rights(), Rights(writes=False)


class Tokens:
    """The tokens of a door and the rights of each."""

    def __init__(self, full: str = "", read: str = "", forgets: Rate | None = None) -> None:
        self._full, self._read = full.encode(), read.encode()
        self._rights, self._read_rights = Rights(forgets=forgets), Rights(writes=False)

    def __bool__(self) -> bool:
        return bool(self._full)

    def rights(self, given: bytes) -> Rights | None:
        """The rights of this token; None if it is unknown. Both tokens are always compared, so that
        the time reveals nothing."""
        is_full = hmac.compare_digest(given, self._full) and bool(self._full)
        is_read = hmac.compare_digest(given, self._read) and bool(self._read)
        return self._rights if is_full else self._read_rights if is_read else None


def _too_many_forgets(rate: Rate, count: int) -> RateLimited:
    seconds = max(1, math.ceil(rate.wait(count)))
    kept = "this one is kept" if count == 1 else f"these {count} are kept"
    wait = f"again in {seconds} s" if count <= rate.limit else "a narrower filter"
    return RateLimited(
        f"Over the network at most {rate.limit:g} memories a minute can be forgotten; {kept}.",
        hint=f"Try {wait}, use the memoryd command on the machine itself, or raise "
        "doors.max_forgets_per_minute.",
        retry_after=seconds,
    )
