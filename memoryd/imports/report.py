"""What an import would bring, and what became of it: counted the same way by the command line and
by the daemon."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memoryd.fields import KIND, PROJECT
from memoryd.imports.rows import Found, Row, Skipped

BATCH_ROWS, BATCH_CHARS = 256, 256_000  # of one call; the daemon limits the size of a message
OUTCOMES = ("added", "replaced", "known", "kept", "expired", "refused")
COLUMNS = ("type", "kind", "project", "from", "to", "memories")
NONE = "-"
MAX_WIDTH = 40  # characters of a name
Group = tuple[str, str, str]  # type, kind and project
Batch = list[tuple[Row, dict[str, Any]]]  # rows, and each as the daemon takes it


class Preview:
    """Counts memories. `lifetime`: seconds after which a conversation has expired; None: never.
    `shown`: makes a name fit to be shown."""

    def __init__(self, lifetime: float | None, shown: Callable[[str], str] = str) -> None:
        self._lifetime = lifetime
        self._shown = shown
        self._now = time.time()
        self._groups: Counter[Group] = Counter()
        self._spans: dict[Group, tuple[float, float]] = {}
        self.months: Counter[str] = Counter()
        self.expired = 0

    @property
    def total(self) -> int:
        """How many would come."""
        return self._groups.total()

    def take(self, type: str, metadata: Mapping[str, Any], created_at: float | None) -> bool:
        """Count one memory; false if it has expired."""
        is_conversation = type == "conversation" and self._lifetime is not None
        if is_conversation and (created_at or self._now) + (self._lifetime or 0) <= self._now:
            self.expired += 1
            return False
        kind, project = (str(metadata.get(key) or NONE) for key in (KIND, PROJECT))
        group = (type, kind, project)
        self._groups[group] += 1
        if created_at is not None:
            first, last = self._spans.get(group, (created_at, created_at))
            self._spans[group] = (min(first, created_at), max(last, created_at))
        self.months[_day(created_at)[:7]] += 1
        return True

    def take_exported(self, memory: Mapping[str, Any]) -> bool:
        """Count a memory of an export, which says when it expires; false if it has."""
        expires = memory["expires_at"]
        if expires is not None and expires <= self._now and not memory.get("pinned"):
            self.expired += 1
            return False
        return self.take(memory["type"], memory["metadata"], memory["created_at"])

    def rows(self) -> list[tuple[str, ...]]:
        """A row of texts for each group, the largest first; see `COLUMNS`."""
        return [self._row(group) for group, _ in self._groups.most_common()]

    def facts(self) -> dict[str, Any]:
        """The counts for a program."""
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in self.rows()]
        return {"memories": self.total, "expired": self.expired} | {
            "groups": [row | {"memories": int(row["memories"])} for row in rows],
            "months": dict(sorted(self.months.items())),
        }

    def _row(self, group: Group) -> tuple[str, ...]:
        first, last = self._spans.get(group, (None, None))
        names = (self._shown(name)[:MAX_WIDTH] for name in group)
        return (*names, _day(first), _day(last), str(self._groups[group]))


def _day(at: float | None) -> str:
    try:
        return NONE if at is None else datetime.fromtimestamp(at).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return NONE


@dataclass(slots=True)
class Report:
    """What became of the rows of another program."""

    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)  # by reason
    faults: list[dict[str, str]] = field(default_factory=list)  # what is damaged, and where
    rows: list[dict[str, str]] = field(default_factory=list)  # refused or kept, and why

    def skip(self, skipped: Skipped) -> None:
        if skipped.is_fault:
            self.faults.append({"where": skipped.where, "message": skipped.reason})
        else:
            self.skipped[skipped.reason] += skipped.count

    def take(self, row: Row, outcome: Mapping[str, Any]) -> None:
        what = outcome["outcome"]
        if what == "kept" and "twin" in outcome:
            what = "known"  # another memory says the same
        self.counts.update([what, *outcome.get("notes", ())])
        self.counts["masked"] += outcome.get("masked", False)
        if what in ("kept", "refused"):
            error = outcome.get("error")
            why = error["message"] if error else "It differs here; --overwrite replaces it."
            where = {"where": row.where, "id": outcome["id"]}
            self.rows.append(where | {"outcome": what, "message": why})


def once(rows: Iterable[Row | Skipped]) -> Found:
    """The rows, each id once: a session that was continued in another file is in both."""
    seen: set[int] = set()
    for row in rows:
        if isinstance(row, Row):
            if (key := hash(row.id)) in seen:
                yield Skipped("further rows with the same id")
                continue
            seen.add(key)
        yield row


def batches(rows: Found, skip: Callable[[Skipped], None], *, keep: bool) -> Iterator[Batch]:
    """The rows in batches of a bounded size; `skip` gets what is left out."""
    batch: Batch = []
    size = 0
    for row in rows:
        if isinstance(row, Skipped):
            skip(row)
            continue
        fields = row.fields(keep=keep)
        length = len(json.dumps(fields))
        if batch and (len(batch) >= BATCH_ROWS or size + length > BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append((row, fields))
        size += length
    if batch:
        yield batch


def why(id: str, arrived: Mapping[str, Any]) -> str:
    """Why a memory of an export was not imported as it is."""
    if arrived["outcome"] == "refused":
        return f"refused. {arrived['error']['message']}"
    if arrived.get("masked"):
        return "what looked like a secret was removed before storing."
    if arrived["rival"] == id:
        same = f"memory {id} differs from the stored one, which was kept"
        return f"{same}; --overwrite replaces it."
    return (
        f"memory {id} was not imported: {arrived['rival']} has its name or says the same; "
        "--overwrite replaces that one."
    )
