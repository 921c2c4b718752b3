"""A message to summarise, and how its time is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

USER = "user"


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a session. `vector`: of its text, None if it has none yet."""

    who: str  # the speaker, else the role
    text: str
    at: float
    id: str
    role: str = USER
    vector: NDArray[np.float32] | None = None


def day(at: float, zone: tzinfo | None) -> str:
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d}"


def minute(at: float, zone: tzinfo | None) -> str:
    """Day and time, as a history entry has them."""
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M}"


def stamp(said: Sequence[Said], zone: tzinfo | None) -> str:
    """The beginning of a history entry: the time of the last message."""
    return f"[{minute(max(one.at for one in said), zone)}] "


def shortened(text: str, most: int) -> str:
    """The text, cut after a word if it has more than `most` characters."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    if not text[most - 1].isspace() and (space := cut.rfind(" ")) > most // 2:
        cut = cut[:space]
    return cut.rstrip() + "\u2026"
