"""An engine on real ChromaDB with a mirror in a real folder, which rounds on request."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from memoryd.adapters.mirror_files import LocalMirrorFiles
from memoryd.engine.engine import Engine
from memoryd.engine.mirror import mirror
from memoryd.settings import Config, EmbeddingSettings, MemorySettings, MirrorSettings
from memoryd.wiring.engine import open_engine
from tests.engine.conftest import Clock
from tests.one_task import in_one_task

LONG_AGO = 1_000_000_000


class Folder:
    """The folder of the mirror, as a person sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def memory(self) -> str:
        return (self.path / "MEMORY.md").read_text()

    @property
    def items(self) -> list[str]:
        """The items of MEMORY.md without their comments."""
        lines = self.memory.split("\n")
        return [line[2:].partition(" <!--")[0] for line in lines if line.startswith("- ")]

    def write(self, text: str) -> None:
        """Save MEMORY.md as a person's editor does, and long enough ago to be complete."""
        path = self.path / "MEMORY.md"
        path.write_text(text)
        os.utime(path, (LONG_AGO, LONG_AGO))

    def edit(self, old: str, new: str) -> None:
        text = self.memory
        assert old in text
        self.write(text.replace(old, new))

    def drop(self, *texts: str) -> None:
        """Delete the lines with these texts."""
        lines = self.memory.split("\n")
        kept = [line for line in lines if not any(text in line for text in texts)]
        assert len(kept) == len(lines) - len(texts)
        self.write("\n".join(kept))

    def everything(self) -> str:
        """All texts of the folder."""
        return "\n".join(path.read_text() for path in sorted(self.path.iterdir()))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "mirror")


Open = Callable[[], AbstractAsyncContextManager[Engine]]


@pytest.fixture
def open_mirrored(
    tmp_path: Path,
    folder: Folder,
    clock: Clock,
    forked_worker: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Open:
    """Open an engine with a mirror, again and again. Rounds run only when a test asks: those in the
    background have tests of their own."""

    async def never(self: object) -> None: ...

    monkeypatch.setattr(mirror.Mirror, "run", never)
    monkeypatch.setattr(LocalMirrorFiles, "is_settled", lambda self: True)
    config = Config(
        memory=MemorySettings(path=tmp_path / "data", timezone="Europe/Vienna"),
        embedding=EmbeddingSettings(backend="hash"),
        mirror=MirrorSettings(path=str(folder.path)),
    )

    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        async with open_engine(config, clock) as engine:
            await engine.mirror.sync()
            yield engine

    return opened


@pytest.fixture
async def mirrored(open_mirrored: Open) -> AsyncIterator[Engine]:
    async with in_one_task(open_mirrored()) as running:
        yield running
