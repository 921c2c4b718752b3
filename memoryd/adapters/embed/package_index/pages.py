"""The pages of a package index: links to files, as HTML (PEP 503) or as JSON (PEP 691)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-(?P<tag>[^-]+)-none-any\.whl")


@dataclass(frozen=True, slots=True)
class FileLink:
    """A link to one file. `hashes`: pairs of algorithm and digest, as the index states them."""

    url: str
    filename: str
    hashes: tuple[tuple[str, str], ...] = ()
    is_yanked: bool = False


def normalise_name(name: str) -> str:
    """A project's name in the form that indexes use in addresses."""
    return re.sub(r"[-_.]+", "-", name).lower()


def project_address(index: str, project: str) -> str:
    """The address of a project's page."""
    return f"{index.rstrip('/')}/{normalise_name(project)}/"


def links(body: bytes, content_type: str, base: str) -> list[FileLink]:
    """The files that a page links to; raises ValueError for JSON without a list of files."""
    if "json" in content_type.lower():
        return _json_links(body, base)
    parser = _LinkParser(base)
    parser.feed(body.decode("utf-8", "replace"))
    return parser.found


def choose_wheel(links: Iterable[FileLink], requirement: str) -> FileLink | None:
    """The pure Python wheel of a pinned `name==version`; None if there is none. A yanked one only
    if there is no other: the exact version is pinned."""
    name, _, version = requirement.partition("==")
    fits = [link for link in links if _fits(link.filename, name, version)]
    return min(fits, key=lambda link: link.is_yanked, default=None)


def _fits(filename: str, name: str, version: str) -> bool:
    parts = WHEEL.fullmatch(filename)
    return (
        parts is not None
        and normalise_name(parts["name"]) == normalise_name(name)
        and parts["version"] == version
        and "py3" in parts["tag"].split(".")
    )


class _LinkParser(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self.found: list[FileLink] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        href = given.get("href")
        if tag == "base" and href:
            self._base = urljoin(self._base, href)
        elif tag == "a" and href:
            self.found.append(_link(urljoin(self._base, href.strip()), "data-yanked" in given))


def _link(url: str, is_yanked: bool) -> FileLink:
    address, fragment = urldefrag(url)
    filename = unquote(urlsplit(address).path).rpartition("/")[2]
    name, _, digest = fragment.partition("=")
    return FileLink(address, filename, ((name, digest),) if digest else (), is_yanked)


def _json_links(body: bytes, base: str) -> list[FileLink]:
    data = json.loads(body)
    files = data.get("files") if isinstance(data, dict) else None
    if not isinstance(files, list):
        raise ValueError("the index's answer has no list of files")
    return [
        FileLink(
            urljoin(base, str(file["url"])),
            str(file["filename"]),
            tuple((str(name), str(digest)) for name, digest in (file.get("hashes") or {}).items()),
            bool(file.get("yanked")),
        )
        for file in files
        if isinstance(file, dict) and "url" in file and "filename" in file
    ]
