"""`memoryd logs`: show the last events of the daemon's log, and follow it.

The log is a file that the daemon rotates, or the journal of systemd. Following a file must not lose
an event in a rotation: the rest of the old file is read first, then every file that came after it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from memoryd import daemon_record, files
from memoryd.cli.options import LOG_LEVELS
from memoryd.cli.output import DIM, clean, paint, say, say_json
from memoryd.cli.target import target
from memoryd.daemon_record import JOURNAL, LISTENING, STARTING, Record
from memoryd.errors import NotFound

POLL_INTERVAL = 0.2  # seconds between two reads of a log that is followed
INTERRUPTED = 130  # the exit code that shells use: 128 + SIGINT
EVENT_FIELDS = ("timestamp", "level", "event")  # of every event; the rest are its keys
JOURNALCTL = ("journalctl", "--user", "--unit", "memoryd.service", "--output", "cat", "--no-pager")

IsWanted = Callable[[str], bool]


def logs(options: argparse.Namespace) -> int:
    """Show the end of the log; with --follow until interrupted."""
    show = _show_json if options.json else _show
    path = _log_path(options)
    try:
        for line in _file_lines(path, options) if path else _journal_lines(options):
            show(line)
            if options.follow:
                sys.stdout.flush()
    except files.NotAFile as exc:
        raise NotFound(f"There is no log: {exc.strerror}.", hint="Remove it.") from exc
    except KeyboardInterrupt:  # the usual way to end it, so no error
        if not options.follow:
            raise
        return INTERRUPTED
    return 0


def _log_path(options: argparse.Namespace) -> Path | None:
    """The log that the daemon recorded, None for the journal; else the one of a daemon that we
    would start. NotFound if the daemon that runs logs to a terminal."""
    meant = target(options)
    known = daemon_record.read(meant.data_dir) if meant.data_dir and not meant.socket else None
    if known is None:
        return meant.log
    if known.log:
        return None if known.log == JOURNAL else Path(known.log)
    if _runs(known):
        raise NotFound(
            f"The daemon (process {known.pid}) logs to its stderr, not to a file.",
            hint="Look at the terminal where it was started, or start it with --log-file.",
        )
    return meant.log


def _runs(known: Record) -> bool:
    """Whether the record is that of a running daemon; a killed one leaves it behind."""
    if known.state not in (LISTENING, STARTING):
        return False
    return daemon_record.lock_holder(Path(known.data_dir)) == known.pid


def _file_lines(path: Path, options: argparse.Namespace) -> Iterator[str]:
    """The last lines that are wanted; with --follow also the new ones, without end."""
    is_wanted = _filter(options.level)
    try:
        log = _LogFile(path)
    except files.NotAFile:
        raise
    except OSError as exc:
        raise NotFound(
            f"There is no log at {path}.",
            hint="A daemon in the foreground logs to its terminal, one of systemd to the journal: "
            "journalctl --user -u memoryd",
        ) from exc
    with closing(log):
        yield from log.last(options.lines, is_wanted)
        if options.follow:
            yield from filter(is_wanted, log.follow())


def _journal_lines(options: argparse.Namespace) -> Iterator[str]:
    """The same from the journal. With --follow the journal counts the last lines, before the
    filter."""
    is_wanted = _filter(options.level)
    count = str(options.lines) if options.follow or not options.level else "all"
    command = [*JOURNALCTL, "--lines", count, *(["--follow"] if options.follow else [])]
    try:
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
    except OSError as exc:
        raise _journal_error(f"journalctl cannot be run: {exc.strerror}") from exc
    assert reader.stdout is not None
    with reader:
        try:
            wanted = filter(is_wanted, (line.rstrip("\n") for line in reader.stdout))
            yield from wanted if options.follow else deque(wanted, options.lines)
        finally:
            if options.follow and reader.poll() is None:
                reader.terminate()
    if reader.returncode > 0:
        raise _journal_error(f"journalctl ended with exit code {reader.returncode}")


def _journal_error(why: str) -> NotFound:
    return NotFound(
        f"The daemon logs to the journal of systemd, which cannot be read: {why}.",
        hint="journalctl --user -u memoryd",
    )


class _LogFile:
    """The log while it is read: `daemon.log` at first, and after each rotation the file that came
    next. Rotated files are `daemon.log.1` (the newest), `daemon.log.2` and so on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open_log(path)
        self._pending = ""  # the beginning of a line whose end is not written yet

    def close(self) -> None:
        self._file.close()

    def last(self, count: int, is_wanted: IsWanted) -> deque[str]:
        """The last `count` lines that are wanted, from as many files as it takes."""
        found = deque(filter(is_wanted, self._new_lines()), count)
        age = (self._age() or 0) + 1
        while len(found) < count:
            try:
                with _open_log(self._aged(age)) as older:
                    lines = older.read().splitlines()
            except FileNotFoundError:
                break
            found.extendleft(reversed(deque(filter(is_wanted, lines), count - len(found))))
            age += 1
        return found

    def follow(self) -> Iterator[str]:
        """New lines as they are written, without end."""
        while True:
            # Before reading: what is written to the old file comes before its rotation.
            newer = self._newer()
            yield from self._new_lines()
            if newer is None:
                time.sleep(POLL_INTERVAL)
                continue
            self._file.close()
            self._file, self._pending = newer, ""

    def _new_lines(self) -> list[str]:
        *lines, self._pending = (self._pending + self._file.read()).split("\n")
        return lines

    def _newer(self) -> IO[str] | None:
        """The file that came after ours; None if ours is the newest, or a rotation is under way."""
        age = self._age()
        if age == 0:
            return None
        try:
            newer = _open_log(self._aged(age - 1 if age else 0))
        except FileNotFoundError:
            return None
        if self._age() == age:
            return newer
        newer.close()  # rotated once more meanwhile: it may not be the next one
        return None

    def _age(self) -> int | None:
        """How often our file was rotated; None if it is no longer kept."""
        ours, age = os.fstat(self._file.fileno()), 0
        while True:
            try:
                if os.path.samestat(os.stat(self._aged(age)), ours):
                    return age
            except FileNotFoundError:
                if age:  # without the newest, a rotation is under way
                    return None
            age += 1

    def _aged(self, age: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{age}") if age else self._path


def _open_log(path: Path) -> IO[str]:
    handle = files.open_file(path, os.O_RDONLY, named=True)
    return os.fdopen(handle, encoding="utf-8", errors="replace")


def _filter(level: str | None) -> IsWanted:
    """Whether a line is of this level or above. Lines that are no events always are: they may be
    the output of a crash."""
    if level is None:
        return lambda line: True
    hidden = LOG_LEVELS[: LOG_LEVELS.index(level)]

    def is_wanted(line: str) -> bool:
        event = _event(line)
        return event is None or event.get("level") not in hidden

    return is_wanted


def _show_json(line: str) -> None:
    event = _event(line)
    say_json({"event": line} if event is None else event)


def _show(line: str) -> None:
    event = _event(line)
    if event is None:
        say(clean(line))
        return
    when, level, name = (str(event.pop(key, "")) for key in EVENT_FIELDS)
    keys = " ".join(f"{key}={value}" for key, value in event.items())
    say(clean(f"{when[:19]} {level:<8} {name}") + (f"  {paint(clean(keys), DIM)}" if keys else ""))


def _event(line: str) -> dict[str, object] | None:
    """The event on a line; None if it is something else, such as output of a crash."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and "event" in parsed else None
