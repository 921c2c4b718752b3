"""A year of simulated days: what the engine writes is exactly what the formula says."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.lifecycle.decay import confidence_now, is_deprecated
from memoryd.engine.run import run_engine
from memoryd.fields import HALF_LIVES
from memoryd.model import DAY
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.ramstore import RamStore

KINDS = ("work_state", "gotcha", "module_insight", "task_calibration", "decision", "my_own")


@dataclass
class Expected:
    """The rules once more, in the plainest words."""

    confidence: float
    half_life: float | None
    since: float
    uses: int = 0
    deprecated_at: float | None = None

    def use(self, now: float) -> None:
        self.uses += 1
        self.since = now
        if self.uses % 5 == 0 and self.confidence < 0.95:
            self.confidence = min(0.95, round(self.confidence + 0.05, 6))

    def now(self, now: float) -> float:
        if self.half_life is None:
            return self.confidence
        return float(self.confidence * 0.5 ** ((now - self.since) / DAY / self.half_life))

    def sweep(self, now: float) -> None:
        old = self.half_life is not None and now - self.since > 3 * self.half_life * DAY
        low = self.half_life is not None and self.now(now) < 0.1
        self.deprecated_at = (self.deprecated_at or now) if old or low else None


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_year_of_use_and_decay_gives_exactly_the_formula(
    config: Config, store: RamStore, clock: Clock, seed: int
) -> None:
    pick = random.Random(seed)
    async with run_engine(config, store, HashEncoder(), 384, clock, monotonic=clock) as engine:
        expected: dict[str, Expected] = {}
        for n in range(24):
            kind, sure = KINDS[n % len(KINDS)], pick.choice((0.3, 0.5, 0.8, 0.9))
            metadata = {"kind": kind, "confidence": sure, "source": "user_taught"}
            id = (await engine.store(f"memory {n}", metadata=metadata)).memory.id
            expected[id] = Expected(sure, HALF_LIVES.get(kind), clock.now)
        busy = [id for n, id in enumerate(expected) if n % 4]  # the others are never used
        for _ in range(365):
            for id in busy:
                if pick.random() < 0.04:
                    for _ in range(pick.randrange(1, 4)):
                        clock.now += 1
                        engine.count_uses([id])
                        expected[id].use(clock.now)
            clock.now += DAY - clock.now % DAY
            await engine._upkeep.tick()
            for id, wanted in expected.items():
                wanted.sweep(clock.now)
                found = await engine.get(id)
                assert found is not None
                assert confidence_now(found, clock.now) == wanted.now(clock.now)
                assert found.metadata.get("uses", 0) == wanted.uses
                assert found.metadata.get("deprecated_at") == wanted.deprecated_at
                assert is_deprecated(found, clock.now) == (wanted.deprecated_at is not None)
                assert found.updated_at is None
        assert sum(one.deprecated_at is not None for one in expected.values()) > 4
        assert max(one.uses for one in expected.values()) > 20


async def test_a_plain_fact_is_after_a_year_as_it_was(
    config: Config, store: RamStore, clock: Clock
) -> None:
    async with run_engine(config, store, HashEncoder(), 384, clock, monotonic=clock) as engine:
        before = (await engine.store("Ann drinks tea.", metadata={"topic": "tea"})).memory
        for _ in range(365):
            clock.now += DAY
            await engine._upkeep.tick()
        assert await engine.get(before.id) == before
