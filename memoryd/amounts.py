"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int) -> str:
    """`1 memory`, `2 memories`."""
    return f"{count} {'memory' if count == 1 else 'memories'}"


def size(count: float) -> str:
    """Bytes in the unit that fits: `18.3 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
