"""One daemon for the tests of the doors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoryd.doors.tokens import read_token
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import free_port


@pytest.fixture(scope="package")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """All doors open."""
    folder = tmp_path_factory.mktemp("doors") / "data"
    ports = {
        "MEMORYD_DOORS_TCP_PORT": str(free_port()),
        "MEMORYD_DOORS_HTTP_PORT": str(free_port()),
        "MEMORYD_DOORS_MAX_LINE_BYTES": "1000000",
    }
    running = ForkedDaemon(folder, **ports).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def token(daemon: Daemon) -> str:
    return read_token(daemon.folder / "token")
