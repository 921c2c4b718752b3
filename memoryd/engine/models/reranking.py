"""The optional model that reads the query and each of the first results together."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.to_thread

from memoryd.engine.models.outage import Outage
from memoryd.errors import ModelUnavailable
from memoryd.ports import Reranker

PROBE = "memory"


class Reranking:
    """The reranker, once one is attached. `trouble`: why the configured one is not in use."""

    def __init__(self) -> None:
        self.reranker: Reranker | None = None
        self._attached = anyio.Event()
        self._outage = Outage("reranker")
        self.trouble = ""

    def attach(self, reranker: Reranker | None, trouble: str = "") -> None:
        """Use this reranker from now on; without one, `trouble` says why."""
        self.reranker, self.trouble = reranker, trouble
        if reranker is not None:
            self._attached.set()

    async def marks(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `memoryd.ports.Reranker`; at once during an outage."""
        assert self.reranker is not None
        self._outage.check()
        try:
            return await anyio.to_thread.run_sync(self.reranker.marks, query, texts)
        except ModelUnavailable as exc:
            self._outage.begin(exc)
            raise

    async def run(self) -> None:
        """Notice when the reranker works again after an outage. Runs until cancelled."""
        await self._attached.wait()
        await self._outage.watch(self._probe)

    def _probe(self) -> None:
        if self.reranker is not None:
            self.reranker.marks(PROBE, [PROBE])
