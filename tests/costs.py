"""What a text may cost."""

from __future__ import annotations

import time
from collections.abc import Callable


def costs_its_length(work: Callable[[str], object], piece: str) -> bool:
    """Whether eight times the text takes eight times as long, with room for noise, and not
    sixty-four times."""

    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        best = 60.0
        for _ in range(3):
            start = time.process_time()
            work(text)
            best = min(best, time.process_time() - start)
        return best

    return seconds(102_400) < 24 * max(seconds(12_800), 0.001)
