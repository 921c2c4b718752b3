"""A daemon for the tests of a module, and the verbs on it; a module may have its own of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoryd.cli.main import main
from tests.daemons import Daemon, ForkedDaemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("cli") / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def run(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a verb on the daemon; what it printed. `fails` is the exit code that is expected."""

    def verb(*words: str, fails: int = 0) -> str:
        code = main([*words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        assert code == fails, said.err
        return said.out if code == 0 else said.err

    return verb
