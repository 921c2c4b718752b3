"""The configured language model under the engine, and what `status` says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from memoryd.engine.models.language import PROGRAM
from memoryd.settings import LlmSettings
from memoryd.wiring.engine import open_engine
from tests.engine.test_engine_real import configured
from tests.model_server import model_server


async def test_the_engine_has_the_configured_model(tmp_path: Path) -> None:
    with model_server() as server:
        llm = LlmSettings(url=server.url, model="qwen")
        async with open_engine(replace(configured(tmp_path, "hash"), llm=llm)) as engine:
            assert engine.state()["llm"] == f"qwen at {server.url}"
            assert engine.state()["llm_trouble"] is None
            assert server.bodies == []  # nothing is sent before it is needed


async def test_a_program_gives_its_own_model(tmp_path: Path) -> None:
    async def prompt(text: str) -> str:
        return ""

    async with open_engine(configured(tmp_path, "hash"), prompt=prompt) as engine:
        assert engine.state()["llm"] == PROGRAM


async def test_without_one_there_is_none(tmp_path: Path) -> None:
    async with open_engine(configured(tmp_path, "hash")) as engine:
        assert engine.state()["llm"] is None
