"""What can be wrong with a data directory and its daemon, and how it is repaired: the checks that
`memoryd doctor` and a running daemon share. They read a configuration, files, and the daemon's
status; the command line has further ones, for when no daemon runs."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from memoryd import permissions
from memoryd.amounts import counted, size
from memoryd.settings import Config

DISK_FULL, DISK_LOW = 50_000_000, 500_000_000  # bytes that are free


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault: a stable code, a sentence, what to do, and the repair if `--fix` can do it."""

    code: str
    message: str
    hint: str = ""
    repair: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the configuration, the socket, and the daemon if one answers."""

    config: Config
    socket: Path
    status: Mapping[str, Any] | None
    home: Path = field(default_factory=Path.home)

    @property
    def data_dir(self) -> Path:
        return self.config.memory.path

    @property
    def tokens(self) -> tuple[Path, ...]:
        return self.config.doors.token_files(self.data_dir)


def check_files(patient: Patient) -> Iterator[Finding]:
    """Files that other users can reach, and links in the place of files."""
    faults = list(permissions.data_faults(patient.data_dir))
    if patient.data_dir.is_dir():
        faults += permissions.inner_faults(patient.data_dir)
    folder = patient.socket.parent
    if folder.is_dir() and folder.resolve() != patient.data_dir.resolve():
        faults += permissions.directory_faults(folder, "socket directory")
    for token in patient.tokens:
        if token.is_file() and not token.is_relative_to(patient.data_dir):
            faults += permissions.file_faults(token, "token file")
    for fault in faults:
        repair = partial(fault.path.chmod, fault.mode) if fault.mode is not None else None
        yield Finding(fault.code, fault.message, fault.hint, repair)


def check_served_store(patient: Patient) -> Iterator[Finding]:
    """Faults of the store that the daemon reports."""
    if patient.status is None:
        return
    store = patient.status.get("store", {})
    if trouble := store.get("error"):
        yield Finding(trouble["code"], trouble["message"], trouble["hint"])
    if unreadable := store.get("unreadable"):
        yield _unreadable_rows(unreadable)
    for name in store.get("set_aside", ()):
        if "broken" in name:
            message = f"A broken store was repaired; it is kept as {patient.data_dir / name}."
            path = shlex.quote(str(patient.data_dir / name))
            yield Finding("store_set_aside", message, f"Once nothing is missing: rm -r {path}")


def _unreadable_rows(found: Mapping[str, Any]) -> Finding:
    named = ", ".join(f"{id} ({why})" for id, why in found["rows"].items())
    others = found["count"] - len(found["rows"])
    more = f" and {others} more" if others else ""
    return Finding(
        "rows_unreadable",
        f"Rows of the store that are not memories: {named}{more}. They are kept, but neither "
        "served nor backed up.",
        "If they were memories, import a backup that has them: memoryd import FILE. If another "
        "program wrote them, give it a Chroma directory of its own.",
    )


def faults_of(facts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The faults of a take-over, each a code, a sentence and a hint; none without one."""
    if not facts:
        return
    again = f"memoryd import --chroma {shlex.quote(facts['source'])}"
    if facts["state"] == "failed":
        error = facts["error"]
        message = f"The memories in {facts['source']} were not taken over. {error['message']}"
        yield "takeover_failed", message, error["hint"] or "Run: memoryd restart"
    if facts["state"] == "changed":
        message = (
            f"{facts['source']}/chroma.sqlite3 was changed after it was taken over ({facts['at']}):"
            " another program still writes to it, and what it writes is not here."
        )
        hint = f"Let it use memoryd. To add what is new (and what was forgotten since): {again}"
        yield "takeover_outdated", message, hint
    if refused := facts.get("refused"):
        rows = [row for row in facts["rows"] if row["outcome"] == "refused"]
        named = "; ".join(f"{row['id']} ({row['message']})" for row in rows)
        message = f"{refused} memories in {facts['source']} were not taken over: {named}"
        yield "takeover_refused", message, "They are still in the original."


def check_queue(patient: Patient) -> Iterator[Finding]:
    """Writes that were made while the Chroma server could not be reached."""
    shared = (patient.status or {}).get("shared_store") or {}
    if count := shared.get("rejected"):
        path = shared["rejected_file"]
        message = f"{count} queued writes were rejected. They are kept in {path}."
        hint = f"Store again what is missing, then: rm {shlex.quote(path)}"
        yield Finding("offline_rejected", message, hint)
    if shared.get("queued", 0) >= shared.get("queue_limit", 1):
        message = f"The queue for the Chroma server is full: {shared['queued']} writes."
        hint = "Bring the server back, or raise store.offline_limit."
        yield Finding("offline_queue_full", message, hint)


def check_mirror(patient: Patient) -> Iterator[Finding]:
    """The files for people cannot be written, or wait for a decision."""
    state = patient.status.get("mirror") if patient.status is not None else None
    if state and (trouble := state["trouble"]):
        yield Finding(trouble["code"], trouble["message"], trouble["hint"])
    if state and state["held"]:
        message = f"{counted(state['held']).capitalize()} missing from MEMORY.md, not forgotten."
        yield Finding("mirror_held", message, "Run: memoryd mirror")
    for block in patient.status.get("blocks", []) if patient.status is not None else []:
        if trouble := block["trouble"]:
            yield Finding(trouble["code"], trouble["message"], trouble["hint"])


def check_clock(patient: Patient) -> Iterator[Finding]:
    """A leap of the clock, after which the daemon deletes nothing that has expired."""
    if patient.status is not None and (doubt := patient.status.get("clock_doubt")):
        hours = doubt["seconds_left"] / 3600
        message = (
            f"The clock leapt: it is days ahead of {doubt['believed']}, the last time that was "
            f"trusted. No expired memory is deleted until it has been steady for {hours:.1f} more "
            "hours."
        )
        hint = "Correct date and time; or, if they are right, run: memoryd sweep --now"
        yield Finding("clock_doubted", message, hint)


def check_disk(patient: Patient) -> Iterator[Finding]:
    """Too little space on the disk, or a directory that cannot be written to."""
    folder = patient.data_dir
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    if free < DISK_LOW:
        code = "disk_full" if free < DISK_FULL else "disk_low"
        message = f"Only {size(free)} are free on the disk of {folder}; writes will fail."
        hint = "Free some space; to shrink the memories: memoryd forget --older-than 30d --purge"
        yield Finding(code, message, hint)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as exc:
        message = f"The data directory {folder} cannot be written to: {exc.strerror or exc}."
        hint = f"Check its disk and its mode: ls -ld {shlex.quote(str(folder))}"
        yield Finding("data_unwritable", message, hint)
