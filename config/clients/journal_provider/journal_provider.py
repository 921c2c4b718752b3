"""A memory provider of one's own: a journal, one turn on each line of a file.

The name `journal` is registered in `pyproject.toml`. A program creates it by that name:

    memory = create_memory_provider("journal", {"path": "journal.jsonl"})
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from memoryd.client import Recalled
from memoryd.client.types import Message


class JournalProvider:
    """Recalls the last turns of the session, and turns of earlier ones that have a word of the
    hint."""

    name = "journal"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._path = Path(config.get("path", "journal.jsonl"))
        self._notes = Path(config["notes"]) if "notes" in config else None
        self._session = str(uuid.uuid4())

    async def init(self) -> None:
        self._path.touch()

    async def save_turn(self, role: str, content: str, **details: Any) -> None:
        order = await self.turn_count()
        at = datetime.now(UTC).isoformat()
        turn = {"id": f"{self._session}-{order}", "role": role, "content": content, "at": at}
        given = {key: value for key, value in details.items() if value is not None}
        line = json.dumps({**turn, "order": order, **given, "session": self._session})
        with self._path.open("a") as journal:
            journal.write(line + "\n")

    async def recall(self, hint: str | None = None, max_tokens: int | None = None) -> Recalled:
        words = set((hint or "").lower().split())
        earlier = [turn for turn in self._turns() if turn["session"] != self._session]
        found = [turn for turn in earlier if words & set(turn["content"].lower().split())]
        text = "\n".join(f"{turn['role']}: {turn['content']}" for turn in found)
        ids = [turn["id"] for turn in found]
        part = {"part": "moments", "title": "Earlier", "text": text, "ids": ids}
        turns = tuple(await self.recent_turns())
        size = len(text) + sum(len(turn["content"]) for turn in turns)
        parts = cast(Any, (part,) if found else ())
        return Recalled(self._session, parts, turns, tokens=size // 4)

    async def turn_count(self) -> int:
        return len(self._of_session())

    async def recent_turns(self, limit: int = 20) -> list[Message]:
        return cast(list[Message], self._of_session()[-limit:])

    async def on_wake(self, identity: str | None = None) -> Recalled:
        self._session = str(uuid.uuid4())
        return await self.recall()

    async def on_sleep(self) -> None:
        """Every turn is in the file already."""

    async def close(self) -> None:
        """No file is left open."""

    async def get_working_memory(self) -> str:
        """Optional: without this method the provider has no working memory."""
        return self._notes.read_text() if self._notes is not None else ""

    def _turns(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def _of_session(self) -> list[dict[str, Any]]:
        return [turn for turn in self._turns() if turn["session"] == self._session]
