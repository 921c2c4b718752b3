"""The map and a question on the real model: themes lie apart, and their labels name them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import numpy as np
import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.settings import Config
from memoryd.wiring.engine import load_encoder
from tests.engine.conftest import Clock
from tests.engine.map.test_map import Columns, made
from tests.one_task import in_one_task
from tests.ramstore import RamStore

THEMES: Mapping[str, tuple[str, ...]] = {
    "cooking": (
        "The tomato soup needs basil and a long simmer.",
        "Bake the bread at 230 degrees with steam.",
        "Grandmother's pasta sauce uses anchovies.",
        "Soak the beans the night before cooking the stew.",
        "The pizza dough rises in the fridge for two days.",
        "Roast the vegetables with olive oil and thyme.",
        "The curry gets better with toasted cumin.",
        "Salt the eggplant before frying it.",
        "The soup of the day was pumpkin with ginger.",
        "Knead the bread dough for ten minutes.",
    ),
    "servers": (
        "The deploy script restarts the web server with systemd.",
        "Postgres backups run every night on the database server.",
        "The load balancer drops connections after a minute.",
        "Docker images are built on the continuous integration server.",
        "The staging server ran out of disk because of log files.",
        "TLS certificates of the server are renewed by a timer.",
        "The database migration must run before the deploy.",
        "Metrics of every server are scraped by Prometheus.",
        "The cache of the web server is cleared at each deploy.",
        "Container logs are rotated on every host.",
    ),
    "music": (
        "The violin needs new strings before the concert.",
        "Choir rehearsal moved to Tuesday evening.",
        "She plays the cello in the city orchestra.",
        "The concert begins with a Brahms symphony.",
        "Practise the piano scales slowly with a metronome.",
        "The guitar is tuned half a step down for this song.",
        "The orchestra tours Portugal in spring.",
        "His drum kit is too loud for the flat.",
        "The violin concerto is on the programme again.",
        "The choir sings a mass by Haydn.",
    ),
}


@pytest.fixture
async def themed(config: Config, store: RamStore, clock: Clock) -> AsyncIterator[Engine]:
    """Memories of three themes, stored in turn."""
    encoder = load_encoder(Config())
    assert encoder is not None
    running = run_engine(config, store, encoder, encoder.dimension, clock)
    async with in_one_task(running) as engine:
        for texts in zip(*THEMES.values(), strict=True):
            for text in texts:
                await engine.store(text)
        yield engine


@pytest.mark.slow
async def test_themes_lie_apart_and_are_labelled(themed: Engine) -> None:
    drawn = await made(themed)
    columns = Columns.of(drawn.blob)
    found = themed.map.memories(drawn.revision, list(range(drawn.count)))
    theme_of = {text: theme for theme, texts in THEMES.items() for text in texts}
    theme = np.array([theme_of[memory.content] for memory in found if memory])
    places = np.stack([columns.x, columns.y], axis=1).astype(float)
    distances = np.linalg.norm(places[:, None] - places[None, :], axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :3]
    assert (theme[nearest] == theme[:, None]).mean() > 0.85
    words = " ".join(label.text for label in drawn.labels)
    for expected in ({"soup", "bread", "dough"}, {"server", "deploy"}, {"violin", "concert"}):
        assert expected & set(words.split()), words


@pytest.mark.slow
async def test_a_question_in_other_words_gets_the_right_sentence(themed: Engine) -> None:
    found = await themed.ask("Which instrument does she play in the orchestra?")
    assert found.known
    assert found.sentences[0].text == "She plays the cello in the city orchestra."
    assert not (await themed.ask("When is the dentist appointment of the dog?")).known
