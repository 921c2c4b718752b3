"""What is wrong and every setting, asked of a real daemon."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.setting_view import descriptions, plain
from memoryd.settings import keys
from tests.daemons import Daemon, ForkedDaemon


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("checkup") / "data"
    headers = '{"authorization": "private-key"}'
    settings = {"MEMORYD_STORE_HEADERS": headers, "MEMORYD_DOORS_TOOLSETS": "all"}
    file = folder.parent / "config.yaml"
    file.write_text("search:\n  limit: 7\n")
    running = ForkedDaemon(folder, MEMORYD_CONFIG=str(file), **settings).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def error(owner: Daemon, name: str, /, **arguments: Any) -> Any:
    answer = owner.call("tools/call", name=name, arguments=arguments)
    assert answer["isError"], answer
    return answer["_meta"]["memoryd/error"]["code"]


def codes(found: Any) -> list[str]:
    return [finding["code"] for finding in found["findings"]]


def test_a_healthy_daemon_has_no_findings(owner: Daemon) -> None:
    """Nothing is wrong with a new daemon."""
    assert owner.tool("doctor") == {"healthy": True, "findings": []}


def test_a_mode_is_repaired(owner: Daemon) -> None:
    """A file that others could read is found, and its repair is done by the daemon."""
    loose = owner.folder / "loose"
    loose.touch()
    loose.chmod(0o644)
    found = owner.tool("doctor")
    (finding,) = found["findings"]
    assert finding["can_repair"]
    assert finding["sentence"]
    done = owner.tool("doctor_repair", code=finding["code"])
    assert (done["repaired"], done["findings"]) == (1, [])
    assert loose.stat().st_mode & 0o777 == 0o600


def test_a_store_that_is_gone_is_rescued(tmp_path: Path) -> None:
    """The gravest finding comes first; the running daemon restores its store from RAM."""
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_DOORS_TOOLSETS="all").start()
    daemon.tool("store_memory", content="It must not be lost.")
    shutil.rmtree(daemon.folder / "store")
    found = daemon.tool("doctor")
    first = found["findings"][0]
    assert (first["code"], first["severity"], first["can_repair"]) == ("store_gone", "error", True)
    health = daemon.tool("overview")["health"]
    assert health["reasons"][0]["code"] == "store_error"
    done = daemon.tool("doctor_repair", code="store_gone")
    assert "store_gone" not in codes(done)
    assert daemon.tool("audit") == {"index": 1, "store": 1}
    assert daemon.stop() == 0


def test_what_cannot_be_repaired(owner: Daemon) -> None:
    """A code that is not found is an error."""
    assert error(owner, "doctor_repair", code="poem") == "finding_unknown"
    assert error(owner, "doctor_repair") == "finding_unknown"


def test_every_setting_with_its_origin(owner: Daemon) -> None:
    """Each has value, default, description and where it came from; no secret is shown."""
    answer = owner.tool("settings")
    found = {one["key"]: one for part in answer["sections"] for one in part["settings"]}
    assert list(found) == keys()
    assert all(one["description"] for one in found.values())
    assert all(part["description"] for part in answer["sections"])
    limit = found["search.limit"]
    assert (limit["value"], limit["from"], limit["where"]) == (7, "file", answer["file"])
    assert limit["default"] != 7
    backend = found["embedding.backend"]
    assert (backend["value"], backend["from"]) == ("hash", "variable")
    path = found["memory.path"]
    assert (path["from"], path["where"]) == ("flag", "flag --data-dir")
    assert found["backup.keep"]["from"] == "default"
    headers = found["store.headers"]
    assert (headers["value"], headers["secret"]) == ({"authorization": "***"}, True)
    assert "private-key" not in str(answer)


def test_passwords_in_addresses_are_masked() -> None:
    assert plain("llm.url", "https://me:secret@host/v1") == "https://***@host/v1"
    assert plain("llm.url", "https://host/v1?a=b@c") == "https://host/v1?a=b@c"


def test_every_setting_is_described() -> None:
    assert descriptions().keys() == set(keys())


def test_the_configuration_file_is_named_although_it_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.touch()
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_CONFIG=str(file)).start()
    try:
        assert daemon.tool("settings")["file"] == str(file)
    finally:
        assert daemon.stop() == 0
