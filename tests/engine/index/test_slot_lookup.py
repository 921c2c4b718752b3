"""The lookup of slots by value finds what a look at every slot finds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from memoryd.engine.index import slot_lookup
from memoryd.engine.index.slot_lookup import SlotLookup


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_a_scan_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_lookup, "MIN_RECENT", 7)
    pick = random.Random(seed)
    column = np.zeros(200, dtype=np.int64)
    lookup = SlotLookup()
    extremes = [-(2**63), 2**63 - 1]
    values = [*range(1, 30), *extremes]
    for _ in range(2_000):
        slot, what = pick.randrange(len(column)), pick.random()
        if what < 0.4:
            column[slot] = pick.choice(values)
            lookup.add(int(column[slot]), slot)
        elif what < 0.6:
            column[slot] = 0  # free: nobody tells the lookup
        elif what < 0.61:
            column = np.array([pick.choice([0, *values]) for _ in column], dtype=np.int64)
            lookup.forget_all()
        else:
            value = pick.choice(values)
            assert lookup.slots(value, column) == np.flatnonzero(column == value).tolist()
