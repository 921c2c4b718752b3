"""The optional backend, as far as it can be tested without torch; scripts/parity does the rest."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from memoryd.adapters.embed.sbert import SbertEncoder, _QueryFirstLock
from memoryd.errors import EmbedError


def test_without_the_extra_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedError, match="not installed") as caught:
        SbertEncoder("all-MiniLM-L6-v2", tmp_path)
    assert caught.value.hint == 'Run: pip install "memoryd[sentence-transformers]"'


def test_a_query_goes_before_the_bulk_batches_that_wait() -> None:
    """A query waits for the batch that runs, never for those behind it."""
    lock, order, running, free = _QueryFirstLock(), [], threading.Event(), threading.Event()

    def bulk(number: int) -> None:
        with lock.bulk():
            order.append(f"bulk {number}")
            running.set()
            assert free.wait(60)

    def query() -> None:
        with lock.query():
            order.append("query")

    threads = [threading.Thread(target=bulk, args=(number,)) for number in range(4)]
    threads[0].start()
    assert running.wait(60)
    threads.append(threading.Thread(target=query))
    for thread in threads[1:]:
        thread.start()
    deadline = time.monotonic() + 60
    while not lock._next.locked():  # until the query stands in line
        assert time.monotonic() < deadline
    free.set()
    for thread in threads:
        thread.join(60)
    assert order[:2] == ["bulk 0", "query"]
    assert len(order) == 5
