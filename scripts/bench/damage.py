"""Files that break and clocks that leap: what a crash run mixes into its kills.

A kind of damage is a file and a way to spoil it. Files that are derived (the index of Chroma, the
snapshot, marks and records) can be made again, so nothing may be missing afterwards. The database
itself cannot: a daemon that meets a broken one either still has everything or refuses to serve it.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DATABASE = "store/chroma.sqlite3"
INDEX_FILES = (
    "data_level0.bin",
    "header.bin",
    "index_metadata.pickle",
    "length.bin",
    "link_lists.bin",
)


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def halve(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, rng: random.Random) -> None:
    """One bit of the first hundred bytes, where a file says what it is."""
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(min(100, len(data)))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def noise(path: Path, rng: random.Random) -> None:
    """Random bytes over a quarter of it."""
    data = bytearray(path.read_bytes())
    length = max(1, len(data) // 4)
    start = rng.randrange(max(1, len(data) - length))
    data[start : start + length] = rng.randbytes(length)
    path.write_bytes(data)


def zero_page(path: Path, rng: random.Random) -> None:
    """A page of the database as a disk gives it back that lost it."""
    data = bytearray(path.read_bytes())
    page = rng.randrange(max(1, len(data) // 4096))
    data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    path.write_bytes(data)


def replace_by_text(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"This is not what was here before.\n" * 40)


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to which file; `may_refuse`: the daemon may say that it cannot serve this."""

    pattern: str
    spoil: Callable[[Path, random.Random], None]
    may_refuse: bool = False

    @property
    def name(self) -> str:
        return f"{self.pattern.rpartition('/')[2]}: {self.spoil.__name__.replace('_', ' ')}"

    def apply(self, data: Path, rng: random.Random) -> bool:
        """Whether there was such a file to spoil."""
        paths = [path for path in sorted(data.glob(self.pattern)) if path.is_file()]
        for path in paths:
            self.spoil(path, rng)
        return bool(paths)


@dataclass(frozen=True, slots=True)
class FolderGone:
    """Chroma's index is missing as a whole, or a rewrite was left half done."""

    name: str
    may_refuse: bool = False

    def apply(self, data: Path, rng: random.Random) -> bool:
        if self.name == "a half copy in store.new":
            copy_without_mark = shutil.ignore_patterns("rewritten.json")
            shutil.copytree(data / "store", data / "store.new", ignore=copy_without_mark)
            halve(data / "store.new" / "chroma.sqlite3", rng)
            return True
        folders = [path for path in data.glob("store/*-*") if path.is_dir()]
        for folder in folders:
            shutil.rmtree(folder)
        return bool(folders)


DAMAGES: tuple[Damage | FolderGone, ...] = (
    *(
        Damage(DATABASE, spoil, may_refuse=True)
        for spoil in (delete, empty, halve, flip, noise, zero_page, replace_by_text)
    ),
    *(
        Damage(f"store/*-*/{name}", spoil)
        for name in INDEX_FILES
        for spoil in (delete, empty, halve, noise)
    ),
    FolderGone("the index folder: delete"),
    FolderGone("a half copy in store.new"),
    *(Damage("index.snapshot", spoil) for spoil in (delete, empty, halve, flip, noise)),
    *(Damage("clock.json", spoil) for spoil in (delete, replace_by_text)),
    Damage("store/rewritten.json", replace_by_text),
    Damage("lock", delete),
)
