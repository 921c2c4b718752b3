"""What an agent needs of a memory: it saves turns, and recalls what should be in the next prompt.

A turn is one message: of a user, of the agent, of the system, or of a tool. A provider has one
session at a time; `on_wake` begins another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol, TypeGuard, Unpack, runtime_checkable

from memoryd.client.recalled import Recalled
from memoryd.client.session_types import TurnDetails
from memoryd.client.types import Message
from memoryd.errors import InvalidInput

RECENT_TURNS = 20  # how many turns `recent_turns` returns unless told


@runtime_checkable
class MemoryProvider(Protocol):
    """A memory of an agent. Call `init` first and `close` last."""

    @property
    def name(self) -> str:
        """The name that it is created by."""
        ...

    async def init(self) -> None:
        """Get ready: connect, or open files."""
        ...

    async def save_turn(self, role: str, content: str, **details: Unpack[TurnDetails]) -> None:
        """Add a turn to the session. Raises InvalidInput."""
        ...

    async def recall(self, hint: str | None = None, max_tokens: int | None = None) -> Recalled:
        """What should be in the next prompt; `hint`: what it is about."""
        ...

    async def turn_count(self) -> int:
        """How many turns the session has."""
        ...

    async def recent_turns(self, limit: int = RECENT_TURNS) -> list[Message]:
        """The last turns of the session, oldest first."""
        ...

    async def on_wake(self, identity: str | None = None) -> Recalled:
        """Begin a session of an identity; its first recall."""
        ...

    async def on_sleep(self) -> None:
        """End the session and keep what is worth keeping."""
        ...

    async def close(self) -> None:
        """Free what `init` took."""
        ...


@runtime_checkable
class WorkingMemoryProvider(MemoryProvider, Protocol):
    """A provider that also has a text for what the agent is at: goals, people, projects."""

    async def get_working_memory(self) -> str:
        """The text, in Markdown; "" if there is none."""
        ...


def has_working_memory(provider: object) -> TypeGuard[WorkingMemoryProvider]:
    """Whether a provider has a working memory."""
    return isinstance(provider, WorkingMemoryProvider)


def check_config(provider: str, config: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise InvalidInput if the configuration of a provider has a key that it does not know."""
    if unknown := [str(key) for key in config if key not in known]:
        raise InvalidInput(
            f"The memory provider {provider} has no option {unknown[0]!r}.",
            code="provider_config_invalid",
            hint=f"Its options are {', '.join(sorted(known))}.",
        )
