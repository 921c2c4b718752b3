"""The last time that the clock was trusted, as a small file in the data directory.

Not in the collection's metadata: that is written once, while this changes at every sweep; and a
store that is rewritten or restored must not bring an old time back.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

from memoryd import files
from memoryd.ports import Seen

NAME = "clock.json"


class ClockFile:
    """See `memoryd.ports.ClockRecord`."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def load(self) -> Seen | None:
        try:
            found = json.loads(files.read_text(self._path))
            seen = Seen(*(float(found[key]) for key in ("believed", "latest", "steady")))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return seen if all(map(math.isfinite, asdict(seen).values())) else None

    def save(self, seen: Seen) -> None:
        with files.replacing(self._path) as file:
            file.write(json.dumps(asdict(seen)).encode())
