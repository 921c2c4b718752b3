"""What has to change in a file so that a client has memoryd, or has it no longer.

Looking and changing are apart, so that a change can be shown before it is made. Each change is
checked twice: the file is parsed before it is edited, and the new text must have the value that
was meant and all others unchanged.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.setup import config_file
from memoryd.setup.clients import PROJECT, Edit, HookEdit, is_ours
from memoryd.setup.config_file import ClientConfigError, ConfigFile
from memoryd.setup.syntax import Fault, syntax

ADD, REPLACE, REMOVE, SAME, ABSENT = "added", "replaced", "removed", "unchanged", "absent"
MAX_SHOWN = 200  # characters of a line that are shown
DELETED = None  # in place of the new text: the file held nothing else


@dataclass(frozen=True, slots=True)
class Change:
    """`action`: one of the words above. `entry`: what is there now. `is_ours`: whether that starts
    memoryd. `text`: the new content; DELETED: the file is to go. `is_exact`: the backup is put
    back."""

    edit: Edit | HookEdit
    file: ConfigFile
    action: str
    entry: object = None
    is_ours: bool = True
    text: str | None = ""
    is_exact: bool = False

    @property
    def name(self) -> str:
        """The name of the entry: ours, or what the user has called it."""
        return self.edit.name

    @property
    def is_needed(self) -> bool:
        return self.action in (ADD, REPLACE, REMOVE)

    @property
    def after(self) -> ConfigFile:
        """The file with this change, for another one of the same file."""
        return replace(self.file, text=self.text or "") if self.is_needed else self.file

    def diff(self) -> str:
        """The lines that change. Only those: the others may hold secrets."""
        new = self.text or ""
        lines = difflib.unified_diff(
            self.file.text.splitlines(), new.splitlines(), n=0, lineterm=""
        )
        shown = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        return "\n".join(line[:MAX_SHOWN] + "…" * (len(line) > MAX_SHOWN) for line in shown)

    def make(self) -> Path | None:
        """Write it; the backup, None if there is none. Raises ClientConfigError."""
        if self.is_exact:
            self.file.restore()
            return None
        if self.text is DELETED:
            self.file.remove()
            if self.edit.scope == PROJECT:
                _remove_empty_folders(self.edit.file, self.edit.folder)
            return None
        mode = config_file.SHARED if self.edit.scope == PROJECT else config_file.PRIVATE
        return self.file.write(self.text, mode)


def adding(edit: Edit, file: ConfigFile | None = None) -> Change:
    """The change that adds memoryd. `file`: as an earlier change leaves it. Raises
    ClientConfigError."""
    file, found = read(edit, file)
    edit, entry = _find(edit, file, found)
    if isinstance(entry, dict) and entry.items() >= edit.value.items():
        return Change(edit, file, SAME, entry)
    text = _edited(edit, file, found, edit.value)
    return Change(edit, file, REPLACE if entry else ADD, entry, is_ours(entry), text)


def removing(edit: Edit, file: ConfigFile | None = None) -> Change:
    """The change that removes memoryd. `file`: as an earlier change leaves it. Raises
    ClientConfigError."""
    file, found = read(edit, file)
    own = _at(found, edit.path)
    edit, entry = _find(edit, file, found)
    if entry is None:
        return Change(edit, file, ABSENT)
    is_certain = is_ours(entry) and own is not None
    before = _before(edit, file)
    if before is not None and _was_made_from(edit, before, entry, file):
        return Change(edit, file, REMOVE, entry, is_certain, before.text, is_exact=True)
    text = _edited(edit, file, found, None, _kept(edit, before))
    return Change(edit, file, REMOVE, entry, is_certain, left(text, before))


def entries(edit: Edit) -> dict[str, Any]:
    """Every entry beside ours, by name. Raises ClientConfigError."""
    found = _at(read(edit)[1], edit.path[:-1])
    return found if isinstance(found, dict) else {}


def read(
    edit: Edit | HookEdit, file: ConfigFile | None = None
) -> tuple[ConfigFile, dict[str, Any]]:
    """The file of an edit, and its value. Raises ClientConfigError."""
    file = file or config_file.read(edit.file)
    try:
        return file, syntax(edit.syntax).parse(file.text)
    except Fault as exc:
        raise invalid(file.path, exc) from None


def left(text: str, before: ConfigFile | None) -> str | None:
    """What is left of a file; DELETED if nothing is, and there was no file before."""
    return text if before or text.strip().replace("{}", "") else DELETED


def unusual(file: ConfigFile, what: str) -> ClientConfigError:
    """The text of a file has something that the edit would change too."""
    return ClientConfigError(
        f"{file.path} cannot be edited without changing something else in it.",
        code="client_config_unusual",
        hint=f"Edit {what} by hand.",
    )


def _find(edit: Edit, file: ConfigFile, found: dict[str, Any]) -> tuple[Edit, object]:
    """The entry that is there, and the edit of it: the user may have given it another name."""
    if (own := _at(found, edit.path)) is not None:
        return edit, own
    beside = _at(found, edit.path[:-1])
    for name, entry in beside.items() if isinstance(beside, dict) else ():
        if is_ours(entry):
            return replace(edit, path=(*edit.path[:-1], name)), entry
    return edit, None


def _at(value: object, path: Sequence[str]) -> Any:
    """What is at this path; None if nothing is."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _edited(
    edit: Edit,
    file: ConfigFile,
    found: dict[str, Any],
    value: dict[str, Any] | None,
    keep: int = 0,
) -> str:
    """The new text, with this value or without any. Raises ClientConfigError."""
    rules = syntax(edit.syntax)
    try:
        if value is None:
            text = rules.drop(file.text, edit.path, keep)
        else:
            text = rules.put(file.text, edit.path, value)
        after = rules.parse(text)
    except Fault as exc:
        raise invalid(file.path, exc) from None
    if not are_same(_pruned(after, edit.path), _pruned(_meant(found, edit.path, value), edit.path)):
        raise unusual(file, ".".join(edit.path))
    return text


def are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two values are equal; a number that is none is equal to itself here."""
    return one == other or repr(one) == repr(other)


def _meant(found: dict[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    """The whole value as it should be afterwards."""
    whole = copy.deepcopy(found)
    at = whole
    for key in path[:-1]:
        if not isinstance(at.get(key), dict):
            at[key] = {}
        at = at[key]
    at.pop(path[-1], None)
    if value is not None:
        at[path[-1]] = value
    return whole


def _pruned(whole: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The value without parents of the path that are empty: they mean the same as none."""
    for depth in range(len(path) - 1, 0, -1):
        above = _at(whole, path[: depth - 1])
        if isinstance(above, dict) and above.get(path[depth - 1]) in ({}, None):
            above.pop(path[depth - 1], None)
    return whole


def _was_made_from(edit: Edit, before: ConfigFile, entry: object, file: ConfigFile) -> bool:
    """Whether the file is what adding this entry makes of the backup: then the backup is what was
    there, to the byte."""
    if not isinstance(entry, dict):
        return False
    try:
        return syntax(edit.syntax).put(before.text, edit.path, entry) == file.text
    except Fault:
        return False


def _before(edit: Edit, file: ConfigFile) -> ConfigFile | None:
    """The backup, if it is of the time before memoryd was added."""
    backup = config_file.read_backup(file)
    if backup is None:
        return None
    try:
        found = syntax(edit.syntax).parse(backup.text)
    except Fault:
        return None
    return backup if _at(found, edit.path) is None else None


def _kept(edit: Edit, before: ConfigFile | None) -> int:
    """How many parents of the path were there before memoryd was added."""
    found: object = syntax(edit.syntax).parse(before.text) if before else {}
    kept = 0
    for depth in range(1, len(edit.path)):
        kept = depth if isinstance(_at(found, edit.path[:depth]), dict) else kept
    return kept


def invalid(path: Path, fault: Fault) -> ClientConfigError:
    """The text of a file cannot be parsed, or not be edited."""
    return ClientConfigError(
        f"{path}, line {fault.line}: {fault.why}.",
        hint="Correct it in an editor, then run this again. Nothing was changed.",
    )


def _remove_empty_folders(file: Path, project: Path) -> None:
    """Remove the folders between a project and a file that are empty without it."""
    for folder in file.parents:
        if folder == project or not folder.is_relative_to(project) or any(folder.iterdir()):
            return
        folder.rmdir()
