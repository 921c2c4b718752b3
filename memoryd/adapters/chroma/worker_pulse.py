"""Whether a process works on something, told by what it uses and not by how long it takes.

A slow disk or a busy machine can make any call long. A process that is stuck uses no processor,
reads and writes nothing and does not wait for a disk; only that tells it from a slow one.
"""

from __future__ import annotations

from pathlib import Path

BUSY = ("R", "D")  # runs, or waits for the disk


class Pulse:
    """What a process had used when it was looked at last."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._used, _ = self._look()

    def beats(self) -> bool:
        """Whether it did something since the last look; true where the system does not tell."""
        before = self._used
        self._used, is_busy = self._look()
        return is_busy or before is None or self._used is None or self._used != before

    def _look(self) -> tuple[tuple[object, ...] | None, bool]:
        """Processor time and bytes so far, and whether a thread of it is busy right now."""
        try:
            threads = [
                (task / "stat").read_text().rpartition(")")[2].split()
                for task in sorted((self._folder / "task").iterdir())
            ]
            moved = (self._folder / "io").read_text()
        except OSError:  # not Linux, or it has ended
            return None, False
        times = tuple((fields[11], fields[12]) for fields in threads)
        return (times, moved), any(fields[0] in BUSY for fields in threads)
