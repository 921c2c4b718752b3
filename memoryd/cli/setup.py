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
from memoryd.hook.command import hook_command
from memoryd.launch.command import command_words, target_flags
from memoryd.setup import changes, hooks
from memoryd.setup.changes import ABSENT, ADD, REMOVE, REPLACE, SAME, Change
from memoryd.setup.clients import BY_NAME, CLIENTS, PROJECT, USER, Client, Edit, HookEdit
from memoryd.setup.config_file import ConfigFile

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
SAID_OF_HOOKS = {
    ADD: "Added the hooks of memoryd to {title}: {file}",
    REPLACE: "Replaced the hooks of memoryd in {title}: {file}",
    REMOVE: "Removed the hooks of memoryd from {title}: {file}",
    SAME: "{title} has the hooks of memoryd already, in {file}. Nothing was changed.",
    ABSENT: "{title} does not have the hooks of memoryd in {file}. Nothing was changed.",
}
WOULD_OF_HOOKS = {
    ADD: "Would add the hooks of memoryd to {title}: {file}",
    REPLACE: "Would replace the hooks of memoryd in {title}: {file}",
    REMOVE: "Would remove the hooks of memoryd from {title}: {file}",
}
MEMORYD, MEMORYD_HOOKS = "memoryd", "the hooks of memoryd"  # what a client may lack
Done = list[tuple[Change, Path | None]]  # with the backup


class EntryDiffers(InvalidInput):
    """The client has an entry that is not the one to be written or removed."""

    code = "client_entry_differs"
    hint = "Add --force to change it all the same."


def setup(options: argparse.Namespace) -> int:
    """Prepare everything, or set up the client that was named."""
    if options.client is not None:
        return _set_up(BY_NAME[options.client], options)
    for flag in ("print", "remove", "force", "project", "user", "no_hooks"):
        if getattr(options, flag):
            named = flag.replace("_", "-")
            raise UsageError(f"--{named} needs a client.", hint="Run: memoryd setup --help")
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
    planned = _planned(_edits(client, scope, options), remove=options.remove)
    if options.print:
        _show(planned, client, scope, options)
        return 0
    for change in planned:
        _confirm(change, client, options)
    done = _made(planned)
    if options.json:
        told = [_change_facts(change, backup) for change, backup in done]
        say_json({"client": client.name, "scope": scope, "changes": told})
        return 0
    for change, _ in done:
        say(_sentence(change, client))
    for backup in dict.fromkeys(backup for _, backup in done if backup):
        say(f"  as it was before: {backup}")
    if not options.remove:
        _say_more(client, scope, done, options)
    if not was_found and _has_added(done):
        note(f"{client.title} was not found on this machine.")
    return 0


def _say_more(client: Client, scope: str, done: Done, options: argparse.Namespace) -> None:
    """What a user has to know or do after memoryd was added."""
    if _has_added(done):
        say(client.afterwards)
    new_hooks = [each for each in done if isinstance(each[0].edit, HookEdit)]
    if client.hooks and client.hooks.afterwards and _has_added(new_hooks):
        say(client.hooks.afterwards)
    if not options.no_hooks and (reason := _without_hooks(client, scope)):
        note(reason)
    if scope == PROJECT and _has_added(done):
        files = dict.fromkeys(clean(str(change.file.path)) for change, _ in done)
        note(f"Paths of this machine are in it: do not share {' and '.join(files)} with others.")


def _has_added(done: Done) -> bool:
    return any(change.action in (ADD, REPLACE) for change, _ in done)


def _made(planned: list[Change]) -> Done:
    """Make the changes, and say where the backup of each is. Of several in one file the last is
    written: it begins with what the others make of the file."""
    last = {change.edit.file: change for change in planned if change.is_needed}
    for change in last.values():
        change.file.refuse_read_only()  # before the first is written
    backups = {file: change.make() for file, change in last.items()}
    return [(change, backups[change.edit.file] if change.is_needed else None) for change in planned]


def _edits(client: Client, scope: str, options: argparse.Namespace) -> list[Edit | HookEdit]:
    """What to change in the files of a client: its entry, and its hooks if they have to be."""
    which, folder = target(options), Path.cwd()
    edits: list[Edit | HookEdit] = [*client.edits(command_words("mcp", which), scope, folder)]
    command = [*hook_command(), *target_flags(which)]
    hook_edit = client.hook_edit(command, scope, folder)
    is_wanted = not options.no_hooks and (options.remove or not _without_hooks(client, scope))
    return [*edits, hook_edit] if hook_edit and is_wanted else edits


def _without_hooks(client: Client, scope: str) -> str:
    """Why no hooks are added to a client that has some; "" if they are."""
    if client.hooks is None:
        return ""
    folder = Path.cwd()
    if client.name == "claude-code" and (file := hooks.has_plugin(folder)):
        return (
            f"The plugin of memoryd is enabled in {clean(str(file))}. It brings the hooks and the "
            "server, so no hooks were added. To have its tools only once, remove this entry: "
            "memoryd setup claude-code --remove"
        )
    if scope == USER and not client.hooks.user:
        return f"{client.title} has hooks for a project only: memoryd setup {client.name} --project"
    if client.name == "vscode" and (file := hooks.in_claude_settings(folder)):
        return f"VS Code also runs the hooks of memoryd in {clean(str(file))}: none were added."
    return ""


def _planned(edits: list[Edit | HookEdit], *, remove: bool) -> list[Change]:
    """The change of each edit. One in the same file begins with what the one before makes of it."""
    files: dict[Path, ConfigFile] = {}
    planned = []
    for edit in edits:
        file = files.get(edit.file)
        if isinstance(edit, HookEdit):
            change = hooks.removing(edit, file) if remove else hooks.adding(edit, file)
        else:
            change = changes.removing(edit, file) if remove else changes.adding(edit, file)
        files[edit.file] = change.after
        planned.append(change)
    return planned


def _confirm(change: Change, client: Client, options: argparse.Namespace) -> None:
    """Ask before an entry is changed that the user made. EntryDiffers if that is not possible."""
    if not change.is_needed or _is_own(change) or options.force:
        return
    if not options.json:
        _say_change(change, client)
    if not _at_terminal() or options.json:
        what = "other hooks of" if isinstance(change.edit, HookEdit) else "another entry"
        name = "memoryd" if isinstance(change.edit, HookEdit) else repr(change.name)
        raise EntryDiffers(f"{client.title} has {what} {name} in {change.file.path}.")
    if not _asks(f"{'Remove' if options.remove else 'Replace'} it?", default=False):
        raise EntryDiffers("Nothing was changed.")


def _is_own(change: Change) -> bool:
    """Whether a change is only of what memoryd itself has written, or writes now."""
    if change.action == REPLACE and isinstance(change.edit, Edit):
        return False  # its other keys may be the user's
    return change.action == ADD or change.is_ours


def _show(planned: list[Change], client: Client, scope: str, options: argparse.Namespace) -> None:
    """Say what would change."""
    if options.json:
        told = [_change_facts(change, None) | {"diff": change.diff()} for change in planned]
        say_json({"client": client.name, "scope": scope, "changes": told})
        return
    for change in planned:
        _say_change(change, client)
    if not options.remove and not options.no_hooks and (reason := _without_hooks(client, scope)):
        note(reason)


def _say_change(change: Change, client: Client) -> None:
    say(_sentence(change, client, is_made=False))
    if change.is_needed:
        say(clean(change.diff()))


def _sentence(change: Change, client: Client, *, is_made: bool = True) -> str:
    is_hooks = isinstance(change.edit, HookEdit)
    words = SAID_OF_HOOKS if is_hooks else SAID
    if not is_made and change.is_needed:
        words = WOULD_OF_HOOKS if is_hooks else WOULD
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
    for client, missing, _ in states if _at_terminal() else ():
        file = _file(client, missing, options)
        if missing and _asks(f"Add {missing} to {client.title} ({file})?", default=True):
            try:
                _set_up(client, options)
            except MemorydError as exc:  # the others can still be set up
                note(f"{exc.message} {exc.hint}")


def _state(client: Client, options: argparse.Namespace) -> tuple[str, str]:
    """What can be added to a client, "" for nothing, and a few words on it."""
    try:
        planned = _planned(_edits(client, USER, options), remove=False)
    except MemorydError as exc:
        return "", clean(exc.message)
    needed = [change for change in planned if change.is_needed]
    command = f"memoryd setup {client.name}"
    if not needed:
        return "", "has memoryd"
    if not all(map(_is_own, needed)):
        kind = "another entry" if isinstance(needed[0].edit, Edit) else "other hooks of memoryd"
        return "", f"has {kind}; to replace it: {command} --force"
    if isinstance(needed[0].edit, Edit):
        return MEMORYD, f"to add memoryd: {command}"
    return MEMORYD_HOOKS, f"has memoryd; to add its hooks: {command}"


def _file(client: Client, missing: str, options: argparse.Namespace) -> Path:
    """The first file that is changed when this is added."""
    edits = _edits(client, USER, options)
    return edits[-1 if missing == MEMORYD_HOOKS else 0].file


def _facts(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    missing, state = _state(client, options)
    file = str(client.file(USER, Path.cwd()))
    return {"name": client.name, "file": file, "can_be_added": bool(missing), "state": state}


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
