"""`memoryd setup`: prepare the model, check everything, and add memoryd to MCP clients."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from memoryd.cli.doctor import examine
from memoryd.cli.model import prepare
from memoryd.cli.options import UsageError
from memoryd.cli.output import BOLD, clean, note, paint, rows, say, say_json
from memoryd.cli.target import target
from memoryd.errors import InvalidInput, MemorydError
from memoryd.launch.command import command_words
from memoryd.setup.changes import ABSENT, ADD, REMOVE, REPLACE, SAME, Change, adding, removing
from memoryd.setup.clients import BY_NAME, CLIENTS, PROJECT, USER, Client, Edit

SAID = {
    ADD: "Added memoryd to {title}: {file}",
    REPLACE: "Replaced the entry {name!r} of {title}: {file}",
    REMOVE: "Removed the entry {name!r} of {title}: {file}",
    SAME: "{title} has memoryd already, as {name!r} in {file}. Nothing was changed.",
    ABSENT: "{title} does not have memoryd in {file}. Nothing was changed.",
}
WOULD = {
    ADD: "Would add memoryd to {title}: {file}",
    REPLACE: "Would replace the entry {name!r} of {title}: {file}",
    REMOVE: "Would remove the entry {name!r} of {title}: {file}",
}


class EntryDiffers(InvalidInput):
    """The client has an entry that is not the one to be written or removed."""

    code = "client_entry_differs"
    hint = "Add --force to change it all the same."


def setup(options: argparse.Namespace) -> int:
    """Prepare everything, or set up the client that was named."""
    if options.client is not None:
        return _set_up(BY_NAME[options.client], options)
    for flag in ("print", "remove", "force", "project", "user"):
        if getattr(options, flag):
            raise UsageError(f"--{flag} needs a client.", hint="Run: memoryd setup --help")
    facts = prepare(options)
    faults, _ = examine(options)
    found = [client for client in CLIENTS if client.is_installed()]
    if options.json:
        seen = [{"code": fault.code, "message": fault.message} for fault in faults]
        say_json(facts | {"faults": seen, "clients": [_facts(each, options) for each in found]})
        return 0
    for fault in faults:
        say(f"{paint(fault.code, BOLD)}: {clean(fault.message)}")
        say(f"  Try: {clean(fault.hint.removeprefix('Run: '))}")
    say("Checked: nothing is wrong." if not faults else "More: memoryd doctor")
    _offer(found, options)
    return 0


def _set_up(client: Client, options: argparse.Namespace) -> int:
    """Add memoryd to a client, or remove it."""
    scope = PROJECT if options.project else USER
    if scope == PROJECT and not client.project_files:
        raise UsageError(
            f"memoryd can add itself to {client.title} for all projects only.",
            hint="Leave --project out.",
        )
    was_found = client.is_installed()  # before there is a file of ours
    changes = [_planned(edit, options) for edit in _edits(client, scope, options)]
    if options.print:
        for change in changes:
            _show(change, client, as_json=options.json)
        return 0
    for change in changes:
        _confirm(change, client, options)
    done = _made([change.edit for change in changes], options)
    if options.json:
        told = [_change_facts(change, backup) for change, backup in done]
        say_json({"client": client.name, "scope": scope, "changes": told})
        return 0
    for change, backup in done:
        say(_sentence(SAID, change, client))
        if backup is not None:
            say(f"  as it was before: {backup}")
    if any(change.action in (ADD, REPLACE) for change, _ in done):
        say(client.afterwards)
        if not was_found:
            note(f"{client.title} was not found on this machine.")
        if scope == PROJECT:
            note("The entry has a path of this machine: do not share the file with others.")
    return 0


def _made(edits: list[Edit], options: argparse.Namespace) -> list[tuple[Change, Path | None]]:
    """Make each change, and say where its backup is. Each is planned anew, as the one before may
    have changed the same file; then the first backup stays."""
    done: list[tuple[Change, Path | None]] = []
    for edit in edits:
        change = _planned(edit, options)
        has_backup = any(change.file.backup == backup for _, backup in done)
        made = change.make(has_backup=has_backup) if change.is_needed else None
        done.append((change, made))
    return done


def _edits(client: Client, scope: str, options: argparse.Namespace) -> list[Edit]:
    return client.edits(command_words("mcp", target(options)), scope, Path.cwd())


def _planned(edit: Edit, options: argparse.Namespace) -> Change:
    return removing(edit) if options.remove else adding(edit)


def _confirm(change: Change, client: Client, options: argparse.Namespace) -> None:
    """Ask before an entry is changed that the user made. EntryDiffers if that is not possible."""
    is_own = change.action == ADD or (change.action == REMOVE and change.is_ours)
    if not change.is_needed or is_own or options.force:
        return
    if not options.json:
        _show(change, client, as_json=False)
    if not _at_terminal() or options.json:
        raise EntryDiffers(
            f"{client.title} has another entry {change.name!r} in {change.file.path}."
        )
    if not _asks(f"{'Remove' if options.remove else 'Replace'} it?", default=False):
        raise EntryDiffers("Nothing was changed.")


def _show(change: Change, client: Client, *, as_json: bool) -> None:
    if as_json:
        say_json(_change_facts(change, None) | {"diff": change.diff()})
        return
    say(_sentence({**SAID, **WOULD}, change, client))
    if change.is_needed:
        say(clean(change.diff()))


def _sentence(words: dict[str, str], change: Change, client: Client) -> str:
    file = clean(str(change.file.path))
    return words[change.action].format(title=client.title, name=change.name, file=file)


def _change_facts(change: Change, backup: Path | None) -> dict[str, Any]:
    return {
        "file": str(change.file.path),
        "name": change.name,
        "action": change.action,
        "backup": str(backup) if backup else None,
    }


def _offer(found: list[Client], options: argparse.Namespace) -> None:
    """List the clients that were found, and at a terminal offer to add memoryd to each."""
    if not found:
        return
    states = [(client, *_state(client, options)) for client in found]
    say("Clients on this machine:")
    for row in rows({client.title: state for client, _, state in states}):
        say(row)
    for client, may_add, _ in states if _at_terminal() else ():
        file = client.file(USER, Path.cwd())
        if may_add and _asks(f"Add memoryd to {client.title} ({file})?", default=True):
            try:
                _set_up(client, options)
            except MemorydError as exc:  # the others can still be set up
                note(f"{exc.message} {exc.hint}")


def _state(client: Client, options: argparse.Namespace) -> tuple[bool, str]:
    """Whether memoryd can be added to a client, and a few words on it."""
    try:
        action = _action(client, options)
    except MemorydError as exc:
        return False, clean(exc.message)
    if action == SAME:
        return False, "has memoryd"
    command = f"memoryd setup {client.name}"
    if action == REPLACE:
        return False, f"has another entry; to replace it: {command} --force"
    return True, f"to add memoryd: {command}"


def _action(client: Client, options: argparse.Namespace) -> str:
    actions = {adding(edit).action for edit in _edits(client, USER, options)}
    return next(action for action in (REPLACE, ADD, SAME) if action in actions)


def _facts(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    may_add, state = _state(client, options)
    file = str(client.file(USER, Path.cwd()))
    return {"name": client.name, "file": file, "can_be_added": may_add, "state": state}


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asks(question: str, *, default: bool) -> bool:
    """Ask a question that is answered by yes or no; Enter means the default."""
    sys.stdout.write(f"{clean(question)} [{'Y/n' if default else 'y/N'}] ")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer:  # the end of the input
        return False
    word = answer.strip().lower()
    return default if not word else "yes".startswith(word)
