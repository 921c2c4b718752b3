"""Whether another process is doing anything: a slow worker is waited for, a stuck one replaced."""

from __future__ import annotations

from pathlib import Path

BUSY_STATES = ("R", "D")  # of a thread: running, or waiting for the disk


class ProcessActivity:
    """Whether a process does anything, by the processor time and bytes it has used."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._used, _ = self._measure()

    def has_changed(self) -> bool:
        """Whether it did anything since the last call; true if the system does not report it."""
        before = self._used
        self._used, is_busy = self._measure()
        return is_busy or before is None or self._used is None or self._used != before

    def _measure(self) -> tuple[tuple[object, ...] | None, bool]:
        """Processor time and bytes so far, and whether one of its threads is busy right now."""
        try:
            threads = [
                (task / "stat").read_text().rpartition(")")[2].split()
                for task in sorted((self._folder / "task").iterdir())
            ]
            moved = (self._folder / "io").read_text()
        except OSError:  # not Linux, or it has ended
            return None, False
        times = tuple((fields[11], fields[12]) for fields in threads)
        return (times, moved), any(fields[0] in BUSY_STATES for fields in threads)
