"""`memoryd doctor`: report what is wrong, and with --fix repair what can be repaired."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from memoryd import files, places
from memoryd.cli.daemon import fetch_status
from memoryd.cli.output import BOLD, clean, note, paint, say, say_json
from memoryd.cli.takeover import state_of
from memoryd.cli.target import setting_flags, settings, target
from memoryd.diagnosis import (
    Finding,
    Patient,
    check_clock,
    check_disk,
    check_files,
    check_mirror,
    check_queue,
    check_served_store,
    faults_of,
)
from memoryd.endpoints import parse_address
from memoryd.errors import ConfigError, EmbedError, MemorydError, WrongDaemon
from memoryd.launch.target import Target
from memoryd.settings import Config


def doctor(options: argparse.Namespace) -> int:
    """Report every fault; exit code 1 if one remains."""
    (found, notes), fixed = examine(options), []
    if options.fix:
        fixed = [finding for finding in found if finding.repair and _repaired(finding)]
        found, notes = examine(options) if fixed else (found, notes)
    if options.json:
        repaired = [_facts(finding) for finding in fixed]
        faults = [_facts(finding) for finding in found]
        say_json({"healthy": not found, "faults": faults, "fixed": repaired, "notes": notes})
    else:
        _tell(found, fixed, options.fix)
        for sentence in notes:
            say(clean(sentence))
    return 1 if found else 0


def examine(options: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """The faults, and what should be known besides."""
    from memoryd.config import load

    found = []
    try:
        config = settings(options)
    except ConfigError as exc:
        found.append(Finding(exc.code, exc.message, exc.hint or "Correct it in an editor."))
        # Go on with the defaults: the other checks still help.
        environ = {"MEMORYD_DATA_DIR": os.environ.get("MEMORYD_DATA_DIR", "")}
        config = load(Path(os.devnull), environ, setting_flags(options))
    status = None
    try:
        meant = target(options)
        status = asyncio.run(fetch_status(options))
    except WrongDaemon as exc:
        found.append(Finding(exc.code, exc.message, exc.hint))
    except ConfigError:  # already reported
        meant = Target({"--data-dir": str(config.memory.path)})
    except MemorydError:
        pass
    patient = Patient(config, meant.place, status)
    found += [finding for check in CHECKS for finding in check(patient)]
    notes = [f"Take-over: {state_of(taken)}."] if (taken := _takeover(patient)) else []
    if config.llm.url:
        server = parse_address(config.llm.url, "llm.url").shown
        notes.append(f"Language model: {config.llm.model or 'the default model'} at {server}.")
    return found, notes


def _repaired(finding: Finding) -> bool:
    assert finding.repair is not None
    try:
        finding.repair()
    except (OSError, MemorydError) as exc:
        note(f"{finding.code} could not be repaired: {exc}")
        return False
    return True


def _facts(finding: Finding) -> dict[str, object]:
    hint = finding.hint.removeprefix("Run: ")
    fixable = finding.repair is not None
    return {"code": finding.code, "message": finding.message, "try": hint, "fixable": fixable}


def _tell(findings: list[Finding], fixed: list[Finding], fixing: bool) -> None:
    for finding in fixed:
        say(f"Fixed {finding.code}: {clean(finding.message)}")
    for finding in findings:
        say(f"{paint(finding.code, BOLD)}: {clean(finding.message)}")
        if finding.hint:
            say(f"  Try: {clean(finding.hint.removeprefix('Run: '))}")
    if not findings:
        say("No faults found.")
    elif not fixing and (count := sum(finding.repair is not None for finding in findings)):
        say(f"memoryd doctor --fix repairs {count} of {len(findings)}.")


def check_socket(patient: Patient) -> Iterator[Finding]:
    """A socket on which no process listens, or something else in its place."""
    path = patient.socket
    if patient.status is not None or not path.exists() or not places.HAS_UNIX_SOCKETS:
        return
    remove = f"Run: rm {shlex.quote(str(path))}"
    if not stat.S_ISSOCK(path.lstat().st_mode):
        message = f"{path} is not a socket, so no daemon can listen there."
        yield Finding("socket_in_the_way", message, remove)
    elif not _is_locked(patient.data_dir / "daemon.lock") and not places.is_listened_on(path):
        message = f"No process listens on the socket {path}; a killed daemon left it."
        yield Finding("socket_stale", message, remove, path.unlink)


def check_owner(patient: Patient) -> Iterator[Finding]:
    """A daemon that cannot be reached, or a worker that outlived its daemon."""
    status, lock = patient.status, patient.data_dir / "daemon.lock"
    if _is_locked(lock):
        owner = lock.read_text(errors="replace").strip() or "unknown"
        if status is None or owner != str(status["pid"]):
            message = f"Process {owner} serves {patient.data_dir}, but not at {patient.socket}."
            hint = f"Use the --socket that it was started with, or end it: kill {owner}"
            yield Finding("daemon_elsewhere", message, hint)
    elif status is None and _is_locked(patient.data_dir / "lock"):
        message = "The daemon has ended, but its store worker still has the store open."
        yield Finding("worker_orphan", message, "Wait: it ends when its last call is done.")


def check_variables(patient: Patient) -> Iterator[Finding]:
    """Variables that move the memories for this shell, but not for MCP clients, which may not pass
    them on to the servers that they start."""
    if patient.data_dir == places.data_dir():
        yield from _moved("XDG_DATA_HOME", patient.home / places.UNIX_DATA, "the data directory")
    if places.config_file().exists():
        yield from _moved("XDG_CONFIG_HOME", patient.home / ".config", "the configuration file")


def _moved(variable: str, usual: Path, what: str) -> Iterator[Finding]:
    named = os.environ.get(variable)
    if not named or sys.platform != "linux" or Path(named).resolve() == usual.resolve():
        return
    message = f"{variable} moves {what} to {named}; MCP clients may start memoryd without it."
    hint = (
        f"Name the directory as `memory.path` in {usual.parent}/.config/memoryd/config.yaml, or "
        f"set {variable} in the `env` of each client's entry."
    )
    yield Finding("variable_not_passed", message, hint)


def check_model(patient: Patient) -> Iterator[Finding]:
    """A model that is missing or damaged, or a model server that does not answer."""
    if patient.config.embedding.backend == "http":
        yield from _server_faults(patient.config)
    if patient.config.embedding.backend != "onnx":
        return
    from memoryd.wiring.engine import prepare_model

    here = replace(patient.config.embedding, download=False)
    try:
        prepare_model(replace(patient.config, embedding=here))
    except EmbedError as exc:
        repair = partial(prepare_model, patient.config)
        looked = f" Looked at: {'; '.join(exc.tried)}." if exc.tried else ""
        yield Finding(exc.code, exc.message + looked, exc.hint or "Run: memoryd setup", repair)


def _server_faults(config: Config) -> Iterator[Finding]:
    from memoryd.wiring.engine import ask_server

    try:
        ask_server(config)
    except EmbedError as exc:
        hint = exc.hint or "Check embedding.url, embedding.api and memory.embedding_model."
        yield Finding(exc.code, exc.message, hint)


def check_language(patient: Patient) -> Iterator[Finding]:
    """A language model whose key cannot be read, or that failed when the daemon last asked it."""
    if not patient.config.llm.url:
        return
    from memoryd.wiring.engine import check_language

    try:
        check_language(patient.config)
    except EmbedError as exc:
        yield Finding(exc.code, exc.message, exc.hint or "Check llm.key_env and llm.key_file.")
        return
    if patient.status is not None and (trouble := patient.status.get("llm_trouble")):
        yield Finding("llm_failed", trouble, "Check llm.url, llm.model and the key.")


def check_store(patient: Patient) -> Iterator[Finding]:
    """Faults of the store: those that the daemon reports, else those that its files show."""
    if patient.status is not None:
        yield from check_served_store(patient)
        return
    if patient.data_dir.is_dir() and os.access(patient.data_dir, os.W_OK):
        from memoryd.wiring.engine import look_at_store

        yield from (Finding(*fault) for fault in look_at_store(patient.config))


def check_takeover(patient: Patient) -> Iterator[Finding]:
    """A take-over of another program's memories that failed or is incomplete."""
    if (facts := _takeover(patient)) is not None:
        yield from (Finding(*fault) for fault in faults_of(facts))


def _takeover(patient: Patient) -> Mapping[str, Any] | None:
    """What the daemon or its directory says about a take-over."""
    if patient.status is not None:
        return patient.status.get("takeover")
    from memoryd.wiring.takeover import look_at_takeover

    return look_at_takeover(patient.data_dir)


def check_clients(patient: Patient) -> Iterator[Finding]:
    """Entries and hooks of MCP clients whose command does not exist."""
    from memoryd.setup import hooks
    from memoryd.setup.changes import entries
    from memoryd.setup.clients import CLIENTS, USER, command_of, hook_words, is_ours
    from memoryd.setup.clients import is_written_hook as is_written
    from memoryd.setup.config_file import ClientConfigError

    for client in CLIENTS:
        edit = client.edits(("memoryd", "mcp"), USER, patient.home)[0]
        hook_edit = client.hook_edit((), USER, patient.home)
        again = f"Run: memoryd setup {client.name}"
        file = edit.file
        try:
            for name, entry in entries(edit).items():
                command = command_of(entry)[0] if is_ours(entry) else ""
                if command and shutil.which(command) is None:
                    message = f"The entry {name!r} of {file} starts {command}, which is not there."
                    yield Finding("client_entry_broken", message, f"{again} --force")
            file = hook_edit.file if hook_edit else file
            ours = hooks.our_hooks(hook_edit) if hook_edit else []
        except ClientConfigError as exc:
            if _names_memoryd(file):
                yield Finding(exc.code, exc.message, exc.hint)
            continue
        words = [word for hook in ours if is_written(hook) for word in hook_words(hook)[:4:3]]
        if missing := next((word for word in words if not Path(word).exists()), None):
            message = f"The hooks of memoryd in {file} start {missing}, which is not there."
            yield Finding("client_hooks_broken", message, again)


def _names_memoryd(file: Path) -> bool:
    try:
        return b"memoryd" in file.read_bytes()
    except OSError:
        return False


def _is_locked(path: Path) -> bool:
    """Whether a process holds the lock on this file."""
    try:
        handle = files.open_file(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not places.try_lock(handle)
    finally:
        os.close(handle)


CHECKS = (
    check_files,
    check_socket,
    check_owner,
    check_variables,
    check_disk,
    check_clock,
    check_store,
    check_takeover,
    check_queue,
    check_mirror,
    check_model,
    check_language,
    check_clients,
)
