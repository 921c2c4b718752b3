"""The verbs about the store as a whole: backup, restore, rescue, sweep, purge."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import time
from pathlib import Path

from memoryd import files
from memoryd.cli.daemon import end_running, running
from memoryd.cli.output import clean, counted, note, say, say_json, size
from memoryd.cli.target import settings, target, where
from memoryd.client.owner import BackupResult, OwnerClient
from memoryd.errors import DaemonUnavailable, MemorydError, StoreError

REAPPEAR_TIMEOUT = 10.0  # seconds for a daemon that lost its files to be reachable again
RETRY_DELAY = 0.25  # seconds between two attempts to reach it
STORE_TIMEOUT = 3600.0  # seconds for one call: a large store takes long


def backup(options: argparse.Namespace) -> int:
    """Make a backup now; with a folder, a copy of it there as well."""
    require_store(options)
    made = asyncio.run(_backup(options))
    if options.folder:
        made["path"] = str(_copy(Path(made["path"]), Path(options.folder)))
    if options.json:
        say_json(made)
    else:
        what = f"{counted(made['memories'])} ({size(made['bytes'])})"
        say(f"Backed up {what} to {clean(made['path'])}")
    return 0


def rescue(options: argparse.Namespace) -> int:
    """Make the daemon write the memories in its RAM to a backup and to a new store."""
    folder = str(Path(options.folder).expanduser().absolute()) if options.folder else None
    made = asyncio.run(_rescue(options, folder))
    if options.json:
        say_json(made)
        return 0
    what = f"{counted(made['memories'])} ({size(made['bytes'])})"
    say(f"Rescued {what} to {clean(made['path'])}")
    say("The daemon goes on with a new store that holds them all.")
    return 0


def restore(options: argparse.Namespace) -> int:
    """Replace the store by a backup. Stops the daemon first if it runs."""
    from memoryd.logs import log_to_stderr
    from memoryd.owner import own
    from memoryd.settings import LogSettings
    from memoryd.wiring.engine import check_backup, restore_backup

    log_to_stderr(LogSettings(level="error"))  # else what is logged here would go to stdout
    config = settings(options)
    path = Path(options.file).expanduser().absolute()
    check_backup(path)
    _check_running(options)
    if (pid := end_running(options)) is not None:
        note(f"Stopped process {pid}.")
    with own(config.memory.path):
        count = asyncio.run(restore_backup(config, path, replace=options.replace))
    if options.json:
        say_json({"restored": count, "path": str(path)})
        return 0
    say(f"Restored {counted(count)} from {clean(str(path))}")
    if pid is not None:
        say("The daemon was stopped for this; the next call starts it again.")
    return 0


def purge(options: argparse.Namespace) -> int:
    """Rewrite the store, so that no file but backups holds forgotten text."""
    require_store(options)
    asyncio.run(_purge(options))
    if options.json:
        say_json({"purged": True})
    else:
        say("Purged: forgotten memories are in no file any more, except in older backups.")
    return 0


def sweep(options: argparse.Namespace) -> int:
    """Delete expired memories now; the daemon itself does so every hour."""
    require_store(options)
    deleted = asyncio.run(_sweep(options))
    if options.json:
        say_json({"deleted": deleted})
    else:
        say(f"Deleted {counted(deleted)} that had expired.")
    return 0


def require_store(options: argparse.Namespace) -> None:
    """StoreError if the directory has no store: after a typo in its name an empty one would be
    created there."""
    config = settings(options)
    # If only the mark is left, the daemon says that its store is missing.
    marks = (config.memory.path / "store", config.memory.path / "store.made")
    is_there = any(mark.exists() for mark in marks) or config.store.mode != "embedded"
    if not is_there and not target(options).place.exists():
        raise StoreError(
            f"There are no memories in {config.memory.path}.",
            code="no_store",
            hint="Check --data-dir; memoryd doctor shows what is looked at.",
        )


def _connect(options: argparse.Namespace) -> OwnerClient:
    return OwnerClient(**where(options), start=True, timeout=STORE_TIMEOUT)


async def _backup(options: argparse.Namespace) -> BackupResult:
    async with _connect(options) as daemon:
        return await daemon.backup()


async def _rescue(options: argparse.Namespace, folder: str | None) -> BackupResult:
    """Rescue what a running daemon holds. Starts none: a new one would hold nothing. A daemon whose
    directory is gone makes itself reachable again within seconds."""
    until = time.monotonic() + REAPPEAR_TIMEOUT
    while True:
        try:
            async with OwnerClient(**where(options), start=False, timeout=STORE_TIMEOUT) as daemon:
                return await daemon.rescue(folder)
        except DaemonUnavailable as exc:
            if time.monotonic() >= until:
                raise DaemonUnavailable(
                    f"{exc.message} Only a running daemon holds memories whose files are gone.",
                    hint="Run: memoryd restore FILE, with a backup",
                ) from exc
        await asyncio.sleep(RETRY_DELAY)


async def _sweep(options: argparse.Namespace) -> int:
    async with _connect(options) as daemon:
        return await daemon.sweep(clock_is_right=options.now)


async def _purge(options: argparse.Namespace) -> None:
    async with _connect(options) as daemon:
        await daemon.purge()


def _check_running(options: argparse.Namespace) -> None:
    """StoreError, before anything is stopped, if a running daemon holds memories and --replace was
    not given."""
    found = running(options)
    count = sum(found.get("memories", {}).values()) if found else 0
    if count and not options.replace:
        raise StoreError(
            f"The store already holds {counted(count)}.",
            code="store_not_empty",
            hint="Add --replace to put the backup in their place.",
        )


def _copy(source: Path, folder: Path) -> Path:
    """Copy a file into another folder; the copy. It has its name only once it is complete."""
    folder = folder.expanduser().absolute()
    target = folder / source.name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(source, "rb") as old, files.replacing(target) as new:
            shutil.copyfileobj(old, new)
    except OSError as exc:
        raise MemorydError(
            f"The backup {source} cannot be copied to {folder}: {exc.strerror}.",
            code="backup_not_copied",
            hint="Check that the folder is writable and has room; the backup itself was made.",
        ) from exc
    return target
