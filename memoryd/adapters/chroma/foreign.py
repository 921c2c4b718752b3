"""The rows of a Chroma directory that another program wrote; a child process reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from memoryd.adapters.chroma.foreign_reader import ROWS, WITHOUT_INDEX
from memoryd.errors import InvalidInput

# -P: modules in the working directory must not be imported.
READER = [sys.executable, "-P", "-m", "memoryd.adapters.chroma.foreign_reader"]
COLLECTION = "memories"  # of the managers that memoryd replaces


@dataclass(frozen=True, slots=True)
class ForeignRows:
    """Rows in a file, each with `id`, `document`, `metadata` and perhaps `vector`."""

    path: Path
    count: int
    other_collections: dict[str, int]  # in the same directory: name, rows

    def __iter__(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Each row, and the length of its line."""
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line), len(line)

    def batches(self, most: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """The rows in lists of at most `most` rows and about `size` characters."""
        batch: list[dict[str, Any]] = []
        taken = 0
        for row, length in self:
            if batch and (len(batch) >= most or taken + length > size):
                yield batch
                batch, taken = [], 0
            batch.append(row)
            taken += length
        if batch:
            yield batch


async def read_foreign(source: Path, collection: str, folder: Path) -> ForeignRows:
    """Copy the rows of a collection in `source`, an absolute path, into `folder`. The source is
    never written to. Raises InvalidInput."""
    for flags in ([], [WITHOUT_INDEX]):
        command = [*READER, str(source), collection, str(folder), *flags]
        done = await anyio.run_process(command, check=False, stderr=subprocess.DEVNULL)
        try:
            facts = json.loads(done.stdout)
        except ValueError:
            continue  # it crashed: a damaged index can do that
        if error := facts.get("error"):
            raise InvalidInput(error["message"], code=error["code"], hint=error["hint"])
        return ForeignRows(folder / ROWS, facts["count"], facts["other_collections"])
    raise InvalidInput(
        f"The memories in {source} cannot be read: ChromaDB crashes on its files.",
        code="chroma_unreadable",
        hint="Try another copy of the directory. Nothing was changed.",
    )
