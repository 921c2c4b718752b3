"""Real models for the encoders, prepared once in the user's cache and shared by all runs; a real
Chroma server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import httpx
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.adapters.embed.http_encoder import HttpEncoder
from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
from memoryd.adapters.embed.resolve import Prepared, resolve
from memoryd.places import cache_dir
from memoryd.ports import Encoder
from memoryd.settings import EmbeddingSettings, StoreSettings
from tests.adapters.embed.tiny_bert import write_folder
from tests.model_server import ModelServer, model_server
from tests.processes import free_port


@pytest.fixture(scope="session")
def minilm() -> Prepared:
    return resolve("all-MiniLM-L6-v2", cache_dir() / "models", allow_download=True)


@pytest.fixture(scope="session")
def bge() -> Prepared:
    return resolve("bge-small-en-v1.5", cache_dir() / "models", allow_download=True)


@pytest.fixture(scope="session")
def minilm_encoder(minilm: Prepared) -> OnnxEncoder:
    return OnnxEncoder(minilm)


@pytest.fixture(scope="session")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture(scope="session", params=["hash", "minilm", "bge", "ollama", "openai"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Every encoder that runs without torch."""
    if request.param == "hash":
        return HashEncoder()
    if request.param in ("ollama", "openai"):
        server = request.getfixturevalue("server")
        settings = EmbeddingSettings(backend="http", url=server.url, api=request.param)
        return HttpEncoder("hash-384", settings)
    return OnnxEncoder(request.getfixturevalue(request.param))


@pytest.fixture
def no_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Hides every copy of a model that this machine may have."""

    def hide() -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    return hide


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The folder of a model that is prepared in a moment."""
    return write_folder(tmp_path / "tiny")


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real `chroma run` on loopback."""
    port, folder = free_port(), tmp_path_factory.mktemp("chroma-server")
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(folder)]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log
        )
    deadline = time.monotonic() + 60
    with httpx.Client(trust_env=False) as client:
        while not _beats(client, port):
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
    yield port
    server.terminate()
    server.wait(20)


def _beats(client: httpx.Client, port: int) -> bool:
    try:
        return client.get(f"http://127.0.0.1:{port}/api/v2/heartbeat").is_success
    except httpx.HTTPError:
        return False


@pytest.fixture
def own_collection(
    chroma_server: int,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> StoreSettings:
    """The settings of a collection on the server that only this test uses."""
    monkeypatch.chdir(tmp_path)  # back to where the tests run: opening changes the directory
    name = f"test-{blake2b(request.node.nodeid.encode(), digest_size=8).hexdigest()}"
    return StoreSettings(mode="http", port=chroma_server, collection=name)
