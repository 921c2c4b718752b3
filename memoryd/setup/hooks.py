"""What has to change in a file so that a client runs our hooks, or runs them no longer.

An event has an array of hooks, in which those of other programs are too. So ours are elements that
are recognised by their command: they are added at the end, changed in their place, and removed
together with what is empty without them. The text after a change must have our hooks as they were
meant and everything else unchanged, as for entries (see `changes`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.setup import config_file
from memoryd.setup.changes import (
    ABSENT,
    ADD,
    REMOVE,
    REPLACE,
    SAME,
    Change,
    are_same,
    invalid,
    left,
    read,
    unusual,
)
from memoryd.setup.clients import BY_NAME, PROJECT, USER, HookEdit, is_our_hook, is_written_hook
from memoryd.setup.config_file import ClientConfigError, ConfigFile
from memoryd.setup.syntax import Fault, Key, syntax

HOOKS = "hooks"
CLAUDE_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")  # of a project
PLUGINS = "enabledPlugins"  # in the settings of Claude Code, as {"plugin@marketplace": true}


@dataclass(frozen=True, slots=True)
class Found:
    """A hook of ours in a file. `path`: where it is. `element`: the path of the element of the
    event's array that has it, if that has nothing else; else the same as `path`."""

    event: str
    path: tuple[Key, ...]
    element: tuple[Key, ...]
    hook: dict[str, Any]


def adding(edit: HookEdit, file: ConfigFile | None = None) -> Change:
    """The change that adds our hooks. `file`: as an earlier change leaves it. Raises
    ClientConfigError."""
    file, value = read(edit, file)
    found = list(_found(edit, value))
    _check_shape(edit, file, value)
    if _are_there(edit, found) and _has_head(edit, value):
        return Change(edit, file, SAME, found)
    text = _edited(edit, file, value, found, edit.value)
    is_ours = all(is_written_hook(each.hook) for each in found)
    return Change(edit, file, REPLACE if found else ADD, found, is_ours, text)


def removing(edit: HookEdit, file: ConfigFile | None = None) -> Change:
    """The change that removes our hooks. `file`: as an earlier change leaves it. Raises
    ClientConfigError."""
    file, value = read(edit, file)
    found = list(_found(edit, value))
    if not found:
        return Change(edit, file, ABSENT)
    is_ours = all(is_written_hook(each.hook) for each in found)
    before = _before(edit, file)
    if before is not None and _was_made_from(edit, before, value, found, file):
        return Change(edit, file, REMOVE, found, is_ours, before.text, is_exact=True)
    text = _edited(edit, file, value, found, {}, before)
    return Change(edit, file, REMOVE, found, is_ours, left(text, before))


def our_hooks(edit: HookEdit) -> list[dict[str, Any]]:
    """Every hook of ours in a file. Raises ClientConfigError."""
    return [each.hook for each in _found(edit, read(edit)[1])]


def has_plugin(folder: Path) -> Path | None:
    """The settings of Claude Code that enable our plugin, for all projects or for this folder."""
    for edit in _claude_settings(folder):
        plugins = _value(edit).get(PLUGINS)
        for name, enabled in plugins.items() if isinstance(plugins, dict) else ():
            if enabled is True and name.partition("@")[0] == "memoryd":
                return edit.file
    return None


def in_claude_settings(folder: Path) -> Path | None:
    """The settings of Claude Code that have our hooks, for all projects or for this folder."""
    for edit in _claude_settings(folder):
        if any(_found(edit, _value(edit))):
            return edit.file
    return None


def _claude_settings(folder: Path) -> Iterator[HookEdit]:
    client = BY_NAME["claude-code"]
    if user := client.hook_edit((), USER, folder):
        yield user
    if project := client.hook_edit((), PROJECT, folder):
        for name in CLAUDE_SETTINGS:
            yield replace(project, file=folder / name)


def _value(edit: HookEdit) -> dict[str, Any]:
    """The value of a file that is only looked at; empty if it cannot be read."""
    try:
        return read(edit)[1]
    except ClientConfigError:
        return {}


def _found(edit: HookEdit, value: dict[str, Any]) -> Iterator[Found]:
    """Our hooks in a file, in its order: also at events that are not ours any more."""
    events = value.get(HOOKS)
    for event, elements in events.items() if isinstance(events, dict) else ():
        for index, element in enumerate(elements if isinstance(elements, list) else ()):
            path = (HOOKS, event, index)
            if not edit.grouped:
                if is_our_hook(element):
                    yield Found(event, path, path, element)
                continue
            hooks = element.get(HOOKS) if isinstance(element, dict) else None
            hooks = hooks if isinstance(hooks, list) else []
            ours = [number for number, hook in enumerate(hooks) if is_our_hook(hook)]
            for number in ours:
                inner = (*path, HOOKS, number)
                whole = path if len(hooks) == len(ours) else inner
                yield Found(event, inner, whole, hooks[number])


def _check_shape(edit: HookEdit, file: ConfigFile, value: dict[str, Any]) -> None:
    """ClientConfigError if our hooks would have no place."""
    events = value.get(HOOKS, {})
    wrong = "" if isinstance(events, dict) else f"{HOOKS} is not an object"
    for event in edit.value if not wrong else ():
        if not isinstance(events.get(event, []), list):
            wrong = f"{HOOKS}.{event} is not an array"
    if wrong:
        raise ClientConfigError(
            f"{file.path}: {wrong}.",
            hint="Correct it in an editor, or add --no-hooks. Nothing was changed.",
        )


def _are_there(edit: HookEdit, found: list[Found]) -> bool:
    """Whether each event has its command, once. Other keys, such as a timeout, are the user's."""
    wanted = {event: _hook(elements[0], edit) for event, elements in edit.value.items()}
    there = {each.event: each.hook for each in found}
    return (
        len(found) == len(wanted)
        and there.keys() == wanted.keys()
        and all(_runs(there[event], hook) for event, hook in wanted.items())
    )


def _hook(element: dict[str, Any], edit: HookEdit) -> dict[str, Any]:
    """The hook in an element of ours."""
    hook: dict[str, Any] = element[HOOKS][0] if edit.grouped else element
    return hook


def _runs(hook: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return hook.get("command") == wanted["command"] and "args" not in hook


def _has_head(edit: HookEdit, value: dict[str, Any]) -> bool:
    return all(key in value for key in edit.head)


def _edited(
    edit: HookEdit,
    file: ConfigFile,
    value: dict[str, Any],
    found: list[Found],
    wanted: dict[str, list[dict[str, Any]]],
    before: ConfigFile | None = None,
) -> str:
    """The new text: with these hooks of ours and no others. Raises ClientConfigError."""
    rules = syntax(edit.syntax)
    try:
        text = _with_hooks(edit, file.text, found, wanted, before)
        after = rules.parse(text)
    except Fault as exc:
        raise invalid(file.path, exc) from None
    there = list(_found(edit, after))
    is_meant = _are_there(edit, there) if wanted else not there
    if not is_meant or not are_same(_others(edit, value), _others(edit, after)):
        raise unusual(file, HOOKS)
    return text


def _with_hooks(
    edit: HookEdit,
    text: str,
    found: list[Found],
    wanted: dict[str, list[dict[str, Any]]],
    before: ConfigFile | None,
) -> str:
    """The text with each event's hook in the place of the first of ours, else at the end."""
    rules = syntax(edit.syntax)
    kept = {each.event: each for each in reversed(found) if each.event in wanted}
    for event, each in kept.items():
        hook = _hook(wanted[event][0], edit)
        if "args" in each.hook:
            text = rules.put(text, each.path, hook)
        elif not _runs(each.hook, hook):
            text = rules.put(text, (*each.path, "command"), hook["command"])
    for path in reversed(_superfluous(found, kept)):  # from the end: the places before stay
        text = rules.drop(text, path, _parents(edit, path, before))
    for key, head in edit.head.items() if wanted else ():
        if key not in rules.parse(text):
            text = rules.put(text, (key,), head)
    for event, elements in wanted.items():
        if event not in kept:
            there = rules.parse(text).get(HOOKS, {}).get(event, [])
            text = rules.put(text, (HOOKS, event, len(there)), elements[0])
    return text if wanted else _without_head(edit, text, before)


def _superfluous(found: list[Found], kept: dict[str, Found]) -> list[tuple[Key, ...]]:
    """What has to go, in the order of the text: whole elements if nothing else is in them."""
    elements = {each.element for each in kept.values()}
    gone = [each for each in found if each not in kept.values()]
    paths = (each.path if each.element in elements else each.element for each in gone)
    return list(dict.fromkeys(paths))


def _parents(edit: HookEdit, path: tuple[Key, ...], before: ConfigFile | None) -> int:
    """How many parents of a place stay even if they are empty: those that were there before."""
    if len(path) > len((HOOKS, "event", 0)):  # in a group that has other hooks
        return len(path) - 1
    value = syntax(edit.syntax).parse(before.text) if before else {}
    events = value.get(HOOKS)
    if not isinstance(events, dict):
        return 0
    return 2 if path[1] in events else 1


def _without_head(edit: HookEdit, text: str, before: ConfigFile | None) -> str:
    """The text without the keys that our hooks needed, if nothing else is left and they were not
    there before."""
    rules = syntax(edit.syntax)
    value = rules.parse(text)
    had = rules.parse(before.text) if before else {}
    if value.get(HOOKS) or value.keys() - {HOOKS, *edit.head}:
        return text
    for key in edit.head:
        text = text if key in had else rules.drop(text, (key,), 0)
    return text


def _others(edit: HookEdit, value: dict[str, Any]) -> dict[str, Any]:
    """The value without our hooks, what is empty without them, and the keys that they need."""
    rest = copy.deepcopy(value)
    found = list(_found(edit, rest))
    for path in reversed(_superfluous(found, {})):
        at: Any = rest
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]
    events = rest.get(HOOKS)
    if isinstance(events, dict):
        rest[HOOKS] = {event: elements for event, elements in events.items() if elements != []}
    empty = {HOOKS: {}, **edit.head}
    return {key: item for key, item in rest.items() if key not in empty or item != empty[key]}


def _before(edit: HookEdit, file: ConfigFile) -> ConfigFile | None:
    """The backup, if it is of the time before our hooks were added."""
    backup = config_file.read_backup(file)
    if backup is None:
        return None
    try:
        value = syntax(edit.syntax).parse(backup.text)
    except Fault:
        return None
    return None if any(_found(edit, value)) else backup


def _was_made_from(
    edit: HookEdit,
    before: ConfigFile,
    value: dict[str, Any],
    found: list[Found],
    file: ConfigFile,
) -> bool:
    """Whether the file is what adding these hooks makes of the backup: then the backup is what was
    there, to the byte."""
    added = {each.event: [value[HOOKS][each.event][each.element[2]]] for each in found}
    try:
        return _with_hooks(edit, before.text, [], added, None) == file.text
    except (Fault, AttributeError):  # the backup has something else in the place of an array
        return False
