"""`memoryd logs`: show the last lines of the daemon's log, and follow it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from memoryd import daemon_record, files
from memoryd.cli.output import DIM, clean, paint, say, say_json
from memoryd.cli.target import target
from memoryd.errors import NotFound

POLL_INTERVAL = 0.2  # seconds between two reads of a log that is followed
INTERRUPTED = 130  # the exit code that shells use: 128 + SIGINT
EVENT_FIELDS = ("timestamp", "level", "event")  # of every event; the rest are its keys


def logs(options: argparse.Namespace) -> int:
    """Show the end of the log; with --follow until interrupted."""
    path = _log_path(options)
    show = _show_json if options.json else _show
    try:
        with _open(path) as log:
            for line in deque(log, options.lines):
                show(line)
            end = log.tell()
    except files.NotAFile as exc:
        raise NotFound(f"There is no log: {exc.strerror}.", hint="Remove it.") from exc
    except OSError as exc:
        raise NotFound(
            f"There is no log at {path}.",
            hint="A daemon in the foreground logs to its terminal, one of systemd to the journal: "
            "journalctl --user -u memoryd",
        ) from exc
    if not options.follow:
        return 0
    try:
        for line in _new_lines(path, end):
            show(line)
    except KeyboardInterrupt:  # the usual way to end it, so no error
        pass
    return INTERRUPTED


def _log_path(options: argparse.Namespace) -> Path:
    """The log that the daemon recorded; else the one of a daemon that we would start."""
    meant = target(options)
    known = daemon_record.read(meant.data_dir) if meant.data_dir and not meant.socket else None
    return Path(known.log) if known and known.log else meant.log


def _new_lines(path: Path, start: int) -> Iterator[str]:
    """New lines as they are written, without end; follows a rotation of the file."""
    log, pending = _reopen(path, start), ""
    try:
        while True:
            pending += log.read()
            while "\n" in pending:
                line, _, pending = pending.partition("\n")
                yield line
            sys.stdout.flush()
            time.sleep(POLL_INTERVAL)
            if _rotated(path, log):
                log.close()
                log = _reopen(path, 0)
    finally:
        log.close()


def _reopen(path: Path, start: int) -> IO[str]:
    log = _open(path)
    log.seek(start)
    return log


def _open(path: Path) -> IO[str]:
    handle = files.open_file(path, os.O_RDONLY, named=True)
    return os.fdopen(handle, encoding="utf-8", errors="replace")


def _rotated(path: Path, log: IO[str]) -> bool:
    try:
        return path.stat().st_ino != os.fstat(log.fileno()).st_ino
    except FileNotFoundError:  # a rotation is under way
        return False


def _show_json(line: str) -> None:
    event = _event(line)
    say_json({"event": line.rstrip("\n")} if event is None else event)


def _show(line: str) -> None:
    event = _event(line)
    if event is None:
        say(clean(line.rstrip("\n")))
        return
    when, level, name = (str(event.pop(key, "")) for key in EVENT_FIELDS)
    keys = " ".join(f"{key}={value}" for key, value in event.items())
    say(clean(f"{when[:19]} {level:<8} {name}") + (f"  {paint(clean(keys), DIM)}" if keys else ""))


def _event(line: str) -> dict[str, object] | None:
    """The event on a line; None if it is something else, such as output of a crash."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "event" in found else None
