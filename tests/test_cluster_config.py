"""The files of `config/cluster` as they are: the script with a real nginx, a real Chroma server and
real daemons; the compose file against the script."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import yaml

from tests.daemons import Daemon
from tests.processes import environment, free_port

FILES = Path(__file__).parent.parent / "config" / "cluster"
SYSTEM_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


class Cluster:
    """What `config/cluster/up` has started."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder, self.port = folder, free_port()
        ports = {"CLUSTER_PORT": str(self.port), "CHROMA_PORT": str(free_port())}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        quick = {"MEMORYD_EMBEDDING_BACKEND": "hash", "MEMORYD_STORE_POLL_SECONDS": "0.2"}
        self.process = subprocess.Popen(
            [str(FILES / "up"), *flags, str(folder)],
            env=environment(PATH=path, **ports, **quick),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = self._read_until_ready()
        self.token = (folder / "token").read_text()
        self.one, self.two = (self._daemon(name) for name in ("one", "two"))

    def _read_until_ready(self) -> str:
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("Ctrl-C"):
                return said
        raise AssertionError(said)

    def _daemon(self, name: str) -> Daemon:
        daemon = Daemon(self.folder / name)
        daemon.socket = self.folder / f"{name}.socket"
        return daemon

    def down(self) -> int:
        """The exit code of `up` after `down`."""
        assert self.process.stdout is not None
        subprocess.run([FILES / "down", self.folder], check=True, timeout=60)
        self.process.stdout.close()
        return self.process.wait(60)


def need_proxy() -> None:
    """Without nginx a test is skipped, in CI it fails."""
    if not shutil.which("nginx", path=SYSTEM_PATH):
        said = "There is no nginx: run scripts/proxy. config/cluster was NOT tested."
        pytest.fail(said) if os.environ.get("CI") else pytest.skip(said)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_proxy()
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as folder:
        running = Cluster(Path(folder) / "c", "--tls")
        yield running
        running.down()


def found_by(daemon: Daemon, query: str, seconds: float = 20) -> str:
    """The first result, once there is one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := daemon.tool("search_memories", query=query)["results"]:
            return str(found[0]["content"])
        time.sleep(0.05)
    raise AssertionError("not found")


@pytest.mark.slow
def test_what_one_daemon_stores_through_the_proxy_the_other_finds(cluster: Cluster) -> None:
    """By https, with a certificate that only `store.ca_file` vouches for."""
    cluster.one.tool("store_memory", content="the boiler is in the cellar")
    assert found_by(cluster.two, "boiler") == "the boiler is in the cellar"


@pytest.mark.slow
def test_the_proxy_refuses_every_request_without_the_token(cluster: Cluster) -> None:
    url = f"https://127.0.0.1:{cluster.port}/api/v2/heartbeat"
    token, status = cluster.token, {}
    with httpx.Client(verify=_trusting(cluster), trust_env=False) as client:
        for name, headers in {
            "none": {},
            "bearer": {"Authorization": f"Bearer {token}"},
            "header": {"X-Chroma-Token": token},
            "upper case": {"Authorization": f"Bearer {token.upper()}"},
            "longer": {"Authorization": f"Bearer {token}0"},
            "shorter": {"X-Chroma-Token": token[:-1]},
        }.items():
            status[name] = client.get(url, headers=headers).status_code
    refused = dict.fromkeys(("none", "upper case", "longer", "shorter"), 401)
    assert status == refused | {"bearer": 200, "header": 200}


def _trusting(cluster: Cluster) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=cluster.folder / "tls" / "ca.pem")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "code", "hint"),
    [
        (("Bearer ", "Bearer 0"), "store_unauthorized", "store.headers"),
        (("ca_file: .*", 'ca_file: ""'), "store_certificate", "store.ca_file"),
    ],
)
def test_a_daemon_that_the_proxy_does_not_let_in_says_why(
    cluster: Cluster, tmp_path: Path, changed: tuple[str, str], code: str, hint: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(re.sub(*changed, (cluster.folder / "memoryd.yaml").read_text()))
    daemon = Daemon(tmp_path / "data", MEMORYD_CONFIG=str(config))
    daemon.process = daemon.spawn()
    found = daemon.call("tools/call", name="search_memories", arguments={"query": "boiler"})
    stored = daemon.call("tools/call", name="store_memory", arguments={"content": "boiler"})
    trouble = daemon.status()["store"]["error"]
    daemon.stop()
    assert trouble["message"] in str(found["structuredContent"]["warnings"])
    assert stored["isError"]
    assert stored["_meta"]["memoryd/error"]["code"] == trouble["code"] == code
    assert hint in trouble["hint"]
    assert cluster.token not in daemon.log.read_text()


@pytest.mark.slow
def test_no_process_list_and_no_file_of_others_shows_the_token(cluster: Cluster) -> None:
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert cluster.token not in arguments.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
    loose = [path for path in cluster.folder.rglob("*") if path.lstat().st_mode & 0o077]
    assert not loose
    assert not cluster.folder.stat().st_mode & 0o077


@pytest.mark.slow
def test_down_ends_everything_and_a_second_start_has_the_memories() -> None:
    """Also without https, which needs no certificate."""
    need_proxy()
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as name:
        cluster = Cluster(Path(name) / "c")
        cluster.one.tool("store_memory", content="the gate code is 4711")
        assert cluster.down() == 0
        assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _names(path, name)]
        again = Cluster(Path(name) / "c")
        assert again.token == cluster.token
        assert found_by(again.two, "gate code") == "the gate code is 4711"
        again.down()


def _names(arguments: Path, folder: str) -> bool:
    try:
        return folder in arguments.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_up_says_what_is_missing(tmp_path: Path) -> None:
    """And installs nothing."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in ("bash", "env", "dirname", "readlink"):
        (tools / program).symlink_to(shutil.which(program) or program)
    run = subprocess.run(
        [FILES / "up", tmp_path / "c"], env={"PATH": str(tools)}, capture_output=True, text=True
    )
    assert (run.returncode, "There is no command memoryd." in run.stderr) == (1, True)
    assert not (tmp_path / "c").exists()


def test_the_compose_file_is_the_script_in_containers() -> None:
    """The same proxy file and ports, a volume for Chroma's data, and no way around the proxy."""
    services = yaml.safe_load((FILES / "compose.yaml").read_text())["services"]
    chroma, proxy = services["chroma"], services["proxy"]
    assert chroma["image"] == f"chromadb/chroma:{version('chromadb')}"
    assert "ports" not in chroma
    assert chroma["volumes"] == ["chroma:/data"]
    variables = set(re.findall(r"\$\{(\w+)\}", (FILES / "proxy.conf.template").read_text()))
    assert variables <= set(proxy["environment"])
    assert all(f"'${{{name}}}'" in (FILES / "up").read_text() for name in variables)
    assert proxy["ports"] == ["${CLUSTER_HOST:-127.0.0.1}:${CLUSTER_PORT:-8900}:8900"]
    assert "CLUSTER_PORT:-8900" in (FILES / "up").read_text()
    for part in (chroma, proxy, services["one"], services["two"]):
        assert part["healthcheck"]["test"]
    for name in ("one", "two"):
        environ = services[name]["environment"]
        assert environ["MEMORYD_STORE_HOST"] == "proxy"
        assert environ["MEMORYD_STORE_PORT"] == proxy["environment"]["CLUSTER_LISTEN"]
        assert yaml.safe_load(environ["MEMORYD_STORE_HEADERS"])["Authorization"]
        assert services[name]["volumes"] == [f"{name}:/data"]
