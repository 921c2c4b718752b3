"""The vectors of all memories: rounded to bytes in RAM, exact in a file.

A search compares the rounded vectors of all rows, and exactly the few that can be among the best
(see `View`). Rows written since the last snapshot have their exact vectors in RAM; a snapshot
writes them to the file and drops them here.

Rows live in blocks of fixed size, so that growth never copies: a copy of a hundred megabytes
would stall the event loop. A freed row is zeroed and reused; a row that a snapshot uses is reused
only when a newer one is complete. A scan runs on one thread (a second one gained nothing: memory
bandwidth is the bound) while writes go on; the caller drops hits whose owner changed (see `Index`).
Without `keep` the table only numbers the rows: with a Chroma server, candidates come from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.rounded import Floats, Rounded

if TYPE_CHECKING:
    from memoryd.index_files import VectorFile

BLOCK = 8192
FREE = -1
SPARSE = 3  # compare wanted rows only if fewer than one in this many is wanted
SPARSE_ROUNDED = 2  # the same for rounded rows, which are faster to pick
WRITTEN_AT_ONCE = 1024  # rows that are written to the file at once

Owners = NDArray[np.int32]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Runs = list[tuple[int, int]]  # first row and length


class VectorTable:
    """Rows of one dimension, each owned by a slot. The rows of one memory follow each other."""

    def __init__(self, dimension: int, *, keep: bool = True) -> None:
        self.dimension = dimension
        self.keep = keep
        self._blocks: list[Floats | None] = []  # None: in the file
        self._recent: dict[int, Floats] = {}  # rows of such blocks that are newer than the file
        self._file: VectorFile | None = None
        self._rounded: list[Rounded] = []
        self._unrounded: list[int] = []  # rows whose vector is not rounded yet
        self._owner = np.full(BLOCK, FREE, dtype=np.int32)
        self._free = FreeRuns()
        self._held: Runs = []  # free, but used by the last snapshot
        self._used = 0  # rows ever allocated

    def __len__(self) -> int:
        """How many rows were ever in use at the same time."""
        return self._used

    @property
    def is_in_ram(self) -> bool:
        """Whether all exact vectors are in RAM."""
        return self._file is None

    def add(self, vectors: Sequence[Floats | None], owner: int) -> list[int]:
        """Store the vectors for a slot; their rows. None: a row without a vector."""
        first = self._take(len(vectors))
        for row, vector in enumerate(vectors, start=first):
            if self.keep:
                self._set(row, vector)
                self._unrounded.append(row)
            self._owner[row] = owner
        return list(range(first, first + len(vectors)))

    def _set(self, row: int, vector: Floats | None) -> None:
        block = self._blocks[row // BLOCK]
        if block is not None:
            block[row % BLOCK] = 0.0 if vector is None else vector
        elif vector is None:
            self._recent[row] = np.zeros(self.dimension, dtype=np.float32)
        else:
            self._recent[row] = np.array(vector, dtype=np.float32)

    def reserve(self, count: int) -> None:
        """Allocate room for `count` more rows. Raises MemoryError, with nothing changed."""
        while self.keep and self._used + count > len(self._blocks) * BLOCK:
            self._grow()

    def remove(self, rows: Sequence[int], *, hold: bool = False) -> None:
        """Zero and free the rows. `hold`: the last snapshot uses them."""
        for row in rows:
            if self.keep:
                self._blank(row)
            self._owner[row] = FREE
        run = (rows[0], len(rows))
        if hold:
            self._held.append(run)
        else:
            self._free.add(*run)

    def _blank(self, row: int) -> None:
        self._rounded[row // BLOCK].blank(row % BLOCK)
        block = self._blocks[row // BLOCK]
        if block is not None:
            block[row % BLOCK] = 0.0
            return
        self._recent.pop(row, None)
        if self._file is not None:
            with contextlib.suppress(OSError):  # numbers only, and the next snapshot drops them
                self._file.blank(row)

    # Snapshots

    def restore(self, owners: Owners, rounded: Rounded | None, file: VectorFile | None) -> None:
        """Fill an empty table with these rows, whose exact vectors are in the file."""
        self._used = len(owners)
        self._owner = np.append(owners, np.full(BLOCK, FREE, dtype=np.int32))
        self._free = FreeRuns.of(owners)
        if rounded is None or not self.keep:
            return
        self._file = file
        for start in range(0, len(owners), BLOCK):
            part = rounded.part(start, start + BLOCK)
            self._rounded.append(part if len(part.values) == BLOCK else part.padded(BLOCK))
            self._blocks.append(None)

    def hold(self) -> Runs:
        """The rows that were free but held until now: free once the snapshot that begins now is
        complete."""
        held, self._held = self._held, []
        return held

    def held_on(self, runs: Runs) -> None:
        """The snapshot was not completed: hold them on."""
        self._held += runs

    def write(self, file: VectorFile, rows: Rows, go_on: Callable[[], None]) -> None:
        """Write those of these sorted rows to the file that it does not have. Runs on a thread;
        `go_on` is called between parts and may raise."""
        if file is self._file:
            blocks, recent = self._blocks, self._recent.copy()
            is_new = np.array([block is not None for block in blocks] or [False])[rows // BLOCK]
            is_new |= np.isin(rows, np.fromiter(recent, dtype=np.int64, count=len(recent)))
            rows = rows[is_new]
        for start in range(0, len(rows), WRITTEN_AT_ONCE):
            part = rows[start : start + WRITTEN_AT_ONCE]
            file.write(part, self.rows(part))
            go_on()
        file.flush()

    def rounded_pieces(self, count: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """The first `count` rounded rows, as pieces of three arrays. Runs on a thread."""
        for name, of in (("rounded", "values"), ("scale", "scale"), ("error", "error")):
            for number in range(-(-count // BLOCK)):
                part = getattr(self._rounded[number], of)
                yield name, part[: count - number * BLOCK].copy()

    def use_file(self, file: VectorFile, is_written: Mask) -> None:
        """Read the rows that were written from the file from now on."""
        self._file = file  # first: a search on a thread may need it at once
        for number, block in enumerate(self._blocks):
            part = is_written[number * BLOCK : (number + 1) * BLOCK]
            if block is not None and part.any():
                first = number * BLOCK
                owners = self._owner[first : first + BLOCK]
                is_newer = owners != FREE
                is_newer[: len(part)] &= ~part
                later = np.flatnonzero(is_newer)
                self._recent |= {first + int(at): block[at].copy() for at in later}
                self._blocks[number] = None
        for first, count in self._held:  # forgotten while it was written
            for row in range(first, first + count):
                self._blank(row)
        for row in [row for row in self._recent if row < len(is_written) and is_written[row]]:
            del self._recent[row]

    def release(self, runs: Runs) -> None:
        """Rows that no snapshot uses any more can be used again."""
        for run in runs:
            self._free.add(*run)

    # Reading

    def round_new_rows(self) -> None:
        """Round the rows added since the last call, all at once: one by one takes ten times as
        long. Call on the event loop, before `approximate_cosines`."""
        rows, self._unrounded = np.array(self._unrounded, dtype=np.int64), []
        for number in np.unique(rows // BLOCK).tolist() if self.keep else ():
            here = np.unique(rows[rows // BLOCK == number])
            self._rounded[number].put(here % BLOCK, self._in_ram(number, here))

    def _in_ram(self, number: int, rows: Rows) -> Floats:
        """Rows of one block that were written since the last snapshot; zeros for freed ones."""
        block = self._blocks[number]
        if block is not None:
            return block[rows % BLOCK]
        zeros = np.zeros(self.dimension, dtype=np.float32)
        return np.array([self._recent.get(row, zeros) for row in rows.tolist()], dtype=np.float32)

    def get(self, row: int) -> Floats:
        """A copy of one row. Raises OSError."""
        found: Floats = self.rows(np.array([row], dtype=np.int64))[0]
        return found

    def rows(self, rows: Rows) -> Floats:
        """Copies of many sorted rows. Runs on any thread. Raises OSError."""
        found = np.zeros((len(rows), self.dimension), dtype=np.float32)
        for number, begin, end in self._by_block(rows):
            found[begin:end] = self._exact(number, rows[begin:end])
        return found

    def about(self, rows: Rows) -> Floats:
        """The rounded vectors of these rows, in any order. Runs on any thread."""
        found = np.zeros((len(rows), self.dimension), dtype=np.float32)
        for number in np.unique(rows // BLOCK).tolist():
            here = np.flatnonzero(rows // BLOCK == number)
            found[here] = self._rounded[number].about(rows[here] % BLOCK)
        return found

    def agrees(self, row: int, vector: Floats) -> bool:
        """Whether a vector is the one that was rounded: the file may be damaged."""
        rounded = self._rounded[row // BLOCK]
        about = rounded.about(np.array([row % BLOCK]))[0]
        error = float(rounded.error[row % BLOCK])
        with np.errstate(all="ignore"):  # whatever a damaged file has
            return bool(np.linalg.norm(vector - about) <= 1.01 * error + 1e-4)

    def _exact(self, number: int, rows: Rows) -> Floats:
        """Sorted rows of one block."""
        block, file = self._blocks[number], self._file
        if block is not None or file is None:
            return (
                np.zeros((len(rows), self.dimension), np.float32)
                if block is None
                else block[rows % BLOCK]
            )
        recent = self._recent
        found = np.zeros((len(rows), self.dimension), dtype=np.float32)
        newer = (
            np.array([row in recent for row in rows.tolist()], dtype=np.bool_) if recent else None
        )
        if newer is None or not newer.any():
            return file.read(rows)
        found[~newer] = file.read(rows[~newer])
        for at in np.flatnonzero(newer).tolist():
            found[at] = recent.get(int(rows[at]), found[at])
        return found

    def _by_block(
        self, rows: NDArray[np.int64] | NDArray[np.intp]
    ) -> Iterator[tuple[int, int, int]]:
        """For sorted rows: each block that has some, and where they begin and end."""
        ends = np.searchsorted(rows, BLOCK * np.arange(len(self._blocks) + 1)).tolist()
        for number, (begin, end) in enumerate(pairwise(ends)):
            if end > begin:
                yield number, begin, end

    def owners(self) -> Owners:
        """A snapshot: which slot owns each row, FREE where none does."""
        return self._owner[: self._used].copy()

    def cosines(self, query: Floats, wanted: Mask) -> Floats:
        """By row, the cosine with a unit query, 0..1; 0 where not wanted. Runs on any thread."""
        blocks = self._blocks

        def compare(number: int, part: Mask) -> tuple[NDArray[np.intp] | None, Floats]:
            picked = np.flatnonzero(part)
            block = blocks[number]
            if block is None:
                return picked, self._exact(number, picked + number * BLOCK) @ query
            if len(picked) * SPARSE < len(part):
                return picked, block[picked] @ query
            return None, block[: len(part)] @ query

        return self._each(wanted, compare)

    def approximate_cosines(self, query: Floats, wanted: Mask) -> tuple[Floats, Floats]:
        """By row, the approximate cosine, 0 where not wanted; and the bound of its error."""
        blocks, asked = self._rounded, Rounded.of(query[None, :])

        def compare(number: int, part: Mask) -> tuple[NDArray[np.intp] | None, Floats]:
            picked = np.flatnonzero(part)
            rows = picked if len(picked) * SPARSE_ROUNDED < len(part) else None
            return rows, blocks[number].compare(asked, rows, len(part))

        errors = np.zeros(len(wanted), dtype=np.float32)
        for number, block in enumerate(blocks[: -(-len(wanted) // BLOCK)]):
            into = errors[number * BLOCK : (number + 1) * BLOCK]
            into[:] = block.errors(asked, len(into))
        return self._each(wanted, compare), errors

    def cosines_of(self, query: Floats, rows: NDArray[np.intp]) -> Floats:
        """The cosines of these sorted rows. Runs on any thread. Raises OSError."""
        found = np.zeros(len(rows), dtype=np.float32)
        for number, begin, end in self._by_block(rows):
            with np.errstate(all="ignore"):  # whatever a damaged file has
                found[begin:end] = self._exact(number, rows[begin:end]) @ query
        np.clip(found, 0.0, 1.0, out=found)
        return found

    def _each(
        self,
        wanted: Mask,
        compare: Callable[[int, Mask], tuple[NDArray[np.intp] | None, Floats]],
    ) -> Floats:
        """By row, 0..1, the results of `compare`, which returns rows (None: all) and values."""
        scores = np.zeros(len(wanted), dtype=np.float32)
        for number in range(-(-len(wanted) // BLOCK) if self._blocks else 0):
            part = wanted[number * BLOCK : (number + 1) * BLOCK]
            into = scores[number * BLOCK : (number + 1) * BLOCK]
            if not part.any():
                continue
            rows, found = compare(number, part)
            if rows is None:
                np.multiply(found, part, out=into)
            else:
                into[rows] = found
        np.clip(scores, 0.0, 1.0, out=scores)
        return scores

    def _grow(self) -> None:
        block = np.zeros((BLOCK, self.dimension), dtype=np.float32)
        rounded = Rounded.zeros(BLOCK, self.dimension)
        self._blocks.append(block)
        self._rounded.append(rounded)

    def _take(self, count: int) -> int:
        """The first of `count` free rows that follow each other."""
        if (first := self._free.take(count)) is not None:
            return first
        first, self._used = self._used, self._used + count
        while self._used > len(self._owner):
            self._owner = np.append(self._owner, np.full(BLOCK, FREE, dtype=np.int32))
        while self.keep and self._used > len(self._blocks) * BLOCK:
            self._grow()
        return first


class FreeRuns:
    """Free rows, as runs of rows that follow each other."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[int]] = {}  # first rows

    @classmethod
    def of(cls, owners: Owners) -> FreeRuns:
        """All rows without an owner."""
        made = cls()
        is_free = np.concatenate([[False], owners == FREE, [False]])
        edges = np.flatnonzero(is_free[1:] != is_free[:-1]).tolist()
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            made.add(begin, end - begin)
        return made

    def add(self, first: int, length: int) -> None:
        self._by_length.setdefault(length, []).append(first)

    def take(self, count: int) -> int | None:
        """The first row of a run of this length, which may be cut off a longer one; None if there
        is none."""
        fitting = [length for length in self._by_length if length >= count]
        if not fitting:
            return None
        length = count if count in self._by_length else max(fitting)
        runs = self._by_length[length]
        first = runs.pop()
        if not runs:
            del self._by_length[length]
        if length > count:
            self.add(first + count, length - count)
        return first


def by_row(mask: Mask, owners: Owners) -> Mask:
    """A mask over slots as a mask over their rows; false for free rows."""
    return np.append(mask, False).take(owners, mode="wrap")  # FREE is -1: the appended False
