"""A client with the owner's calls that show what memory knows: questions and the map."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from memoryd.client.client import Client


class Citation(TypedDict):
    """A memory that an answer cites by its number; 0 for one that is only close."""

    number: int
    memory_id: str
    passage: str
    score: float
    type: str
    kind: str | None
    project: str | None
    session_id: str | None
    name: str | None
    who: str | None
    created_at: str
    updated_at: str | None


class AnswerSentence(TypedDict):
    """A sentence of an answer and the memories that it cites."""

    text: str
    numbers: list[int]
    memory_id: str
    memory_ids: list[str]
    since: NotRequired[str]
    earlier: NotRequired[bool]


class Answer(TypedDict):
    """What memory answers. `known` false: nothing, and `closest` are the best that were found."""

    notice: str
    question: str
    known: bool
    by: str
    answer: str
    sentences: list[AnswerSentence]
    citations: list[Citation]
    closest: NotRequired[list[Citation]]
    warnings: list[str]


class MapLabel(TypedDict):
    """What a group of points is about; coordinates from 0 to 65535."""

    x: int
    y: int
    text: str
    count: int


class MapFields(TypedDict):
    """What the codes of points stand for."""

    types: list[str]
    kinds: list[str]
    projects: list[str]


class MemoryMap(TypedDict):
    """The map, or how far it is: with the state `computing` it has a `progress` and nothing else.
    `points`: base64; docs/map.md says what the bytes are."""

    state: str
    progress: NotRequired[float]
    revision: str
    made_at: str
    count: int
    left_out: int
    updating: bool
    labels: list[MapLabel]
    fields: MapFields
    points: NotRequired[str]


class MapPoint(TypedDict):
    """The memory of a point, None if it is gone; a text only if few points were asked for."""

    index: int
    memory_id: str | None
    text: NotRequired[str]
    type: NotRequired[str]
    created_at: NotRequired[str]


class InsightClient(Client):
    """`Client` with `ask` and the map."""

    async def ask(self, question: str, **options: Any) -> Answer:
        """What memory answers to a question, with its sources."""
        return cast(Answer, await self._tool("ask", {"question": question, **options}))

    async def map(self, *, points: bool = False, renew: bool = False) -> MemoryMap:
        """The map as it is now; never waits for one to be made."""
        given = {"points": points, "renew": renew}
        return cast(MemoryMap, await self._tool("map", given))

    async def map_points(self, revision: str, indexes: list[int]) -> list[MapPoint]:
        """The memories of points of a revision."""
        given = {"revision": revision, "indexes": indexes}
        return cast(list[MapPoint], (await self._tool("map_points", given))["points"])
