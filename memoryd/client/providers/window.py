"""The provider `window`: the last turns, in RAM. No daemon, no model, nothing on disk."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Unpack, cast

from memoryd.client.providers.protocol import RECENT_TURNS, check_config
from memoryd.client.recalled import Recalled
from memoryd.client.session_types import TurnDetails
from memoryd.client.types import Message
from memoryd.errors import InvalidInput
from memoryd.recall_text import ROLES
from memoryd.sanitize import as_data, metadata_as_data

OPTIONS = {"turns"}
CHARS_PER_TOKEN = 4  # in English; other scripts need about one token per character


class WindowProvider:
    """Keeps the last turns of the session and nothing else: a new session begins empty, and a hint
    finds nothing."""

    name = "window"

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`turns`: how many turns are kept, 20 unless given."""
        check_config(self.name, config, OPTIONS)
        turns = config.get("turns", RECENT_TURNS)
        if not isinstance(turns, int) or turns < 1:
            raise InvalidInput(
                "turns must be a whole number of at least 1.", code="provider_config_invalid"
            )
        self._turns: deque[Message] = deque(maxlen=turns)
        self._begin()

    def _begin(self) -> None:
        self._turns.clear()
        self._count = 0
        self._session_id = str(uuid.uuid4())

    async def init(self) -> None:
        """Nothing to do."""

    async def save_turn(self, role: str, content: str, **details: Unpack[TurnDetails]) -> None:
        self._turns.append(_message(role, content, self._count, details))
        self._count += 1

    async def recall(self, hint: str | None = None, max_tokens: int | None = None) -> Recalled:
        """The last turns that fit, the oldest dropped first."""
        for missed in range(len(self._turns)):
            recalled = self._recalled(missed)
            if max_tokens is None or recalled.tokens <= max_tokens:
                return recalled
        return self._recalled(len(self._turns))

    def _recalled(self, missed: int) -> Recalled:
        """The turns without the oldest ones."""
        turns = tuple(turn.copy() for turn in self._turns)[missed:]
        warnings = (f"{missed} older turns did not fit into max_tokens.",) if missed else ()
        recalled = Recalled(self._session_id, (), turns, 0, warnings)
        return replace(recalled, tokens=tokens(recalled.text))

    async def turn_count(self) -> int:
        """How many turns were saved, also those that are no longer kept."""
        return self._count

    async def recent_turns(self, limit: int = RECENT_TURNS) -> list[Message]:
        return [turn.copy() for turn in self._turns][-limit:] if limit > 0 else []

    async def on_wake(self, identity: str | None = None) -> Recalled:
        self._begin()
        return await self.recall()

    async def on_sleep(self) -> None:
        """Nothing to do: the turns are kept until the next session begins."""

    async def close(self) -> None:
        self._begin()


def _message(role: str, content: str, order: int, details: TurnDetails) -> Message:
    """The turn as the daemon would return it: text is data. Raises InvalidInput."""
    if role not in ROLES:
        raise InvalidInput(
            f"There is no role {role!r}.",
            code="role_unknown",
            hint=f"Use one of {', '.join(ROLES)}.",
        )
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("Content is empty.", code="content_empty")
    metadata, used = details.get("metadata"), details.get("tools_used")
    further = {
        "source": as_data(source) if (source := details.get("source")) else None,
        "tool": as_data(tool) if (tool := details.get("tool")) else None,
        "tools_used": [as_data(one) for one in used] if used else None,
        "metadata": metadata_as_data(metadata) if metadata else None,
    }
    made = {
        "id": f"turn-{order}",
        "role": role,
        "content": as_data(content),
        "at": datetime.now(UTC).astimezone().isoformat(timespec="milliseconds"),
        "order": order,
    }
    return cast(Message, made | {key: value for key, value in further.items() if value})


def tokens(text: str) -> int:
    """About how many tokens a language model reads, as the daemon estimates it."""
    plain = sum(map(str.isascii, text))
    return -(-plain // CHARS_PER_TOKEN) + len(text) - plain
