"""The files of the page: its shell, scripts, styles and texts. None of them has a memory in it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
FALLBACK_LANGUAGE = "en"
_TAG = re.compile(r"([A-Za-z]{1,8})(?:-[A-Za-z0-9]{1,8})*\s*(?:;\s*q=([0-9.]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, and a tag that changes with its content."""

    content: bytes
    media_type: str
    tag: str


class Assets:
    """All files, read once."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): _asset(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in MEDIA_TYPES
        }
        names = (name for name in self._files if name.startswith("strings/"))
        self.languages = tuple(name[len("strings/") : -len(".json")] for name in names)

    def get(self, name: str) -> Asset | None:
        return self._files.get(name)

    def shell(self, accept_language: str) -> bytes:
        """The page's HTML in the language that the browser likes best."""
        language = choose_language(accept_language, self.languages)
        html = self._files["index.html"].content.decode()
        html = html.replace("{language}", language)
        return html.replace("{languages}", " ".join(self.languages)).encode()


def choose_language(header: str, known: tuple[str, ...]) -> str:
    """The known language that an Accept-Language header likes best."""
    liked: list[tuple[float, int, str]] = []
    for place, part in enumerate(header[:500].split(",")):
        if (match := _TAG.fullmatch(part.strip())) and match[1].lower() in known:
            try:
                weight = float(match[2] or 1)
            except ValueError:
                continue
            liked.append((-weight, place, match[1].lower()))
    return min(liked)[2] if liked else FALLBACK_LANGUAGE


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, MEDIA_TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')
