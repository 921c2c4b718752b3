"""Killed at random and in the worst moment: nothing acknowledged is lost. The long version is
`scripts/bench/crash.py`."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from scripts.bench.crash import VICTIMS, run

pytestmark = pytest.mark.slow


def test_no_kill_loses_an_acknowledged_answer() -> None:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as folder:
        results = asyncio.run(run(len(VICTIMS), 7, Path(folder)))
        log = (Path(folder) / "log").read_text()
    total = sum(results.values(), Counter[str]())
    assert total["rounds"] == len(VICTIMS), log
    assert total["acknowledged"] > 0
    bad = {name: total[name] for name in ("lost", "undead", "garbled", "no start")}
    assert bad == dict.fromkeys(bad, 0), log
