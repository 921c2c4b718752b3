"""When the clock was last believed, as a small file in the data directory.

Not in the collection's metadata: that says whose vectors the store holds and is written once, while
this changes at every sweep; and a store that is rewritten or restored must not bring an old time.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path

from memoryd.ports import Seen

NAME = "clock.json"


class ClockFile:
    """See `memoryd.ports.ClockRecord`."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def load(self) -> Seen | None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            seen = Seen(*(float(found[key]) for key in ("believed", "latest", "steady")))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return seen if all(map(math.isfinite, asdict(seen).values())) else None

    def save(self, seen: Seen) -> None:
        part = self._path.with_name(f"{NAME}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(part, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(seen), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._path)
