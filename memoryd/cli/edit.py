"""`memoryd edit`: change the text of a memory in an editor.

The text is in a private folder while it is edited, together with what the editor leaves beside it.
The folder is removed once the text is stored. If that fails, it stays, and its path is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memoryd.cli.forget import connect
from memoryd.cli.manage import tell_update
from memoryd.cli.output import clean, note, say, say_json
from memoryd.client.types import Updated
from memoryd.errors import InvalidInput, MemorydError

USUAL_EDITORS = ("editor", "nano", "vi")


def edit(options: argparse.Namespace) -> int:
    """Open the text in an editor and store what is saved there; an unchanged one is not stored."""
    command = editor()
    before = asyncio.run(_read(options))
    with drafted(before["content"]) as path:
        run_editor(command, path)
        content = edited(path, before["content"])
        if content == before["content"]:
            _tell_unchanged(before, options)
            return 0
        updated = asyncio.run(_save(options, before, content))
    tell_update(updated, as_json=options.json)
    return 0


def editor() -> list[str]:
    """The command of the editor: VISUAL, EDITOR, or a usual one. Raises InvalidInput."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    usual = ("notepad",) if sys.platform == "win32" else USUAL_EDITORS
    try:
        command = shlex.split(named) if named else [next(filter(shutil.which, usual), "")]
    except ValueError:
        command = []
    if not command or shutil.which(command[0]) is None:
        raise InvalidInput(
            f"There is no editor {clean(named)!r}." if named else "No editor was found.",
            code="editor_missing",
            hint="Set EDITOR, for example: EDITOR=nano memoryd edit NAME",
        )
    return command


@contextmanager
def drafted(content: str) -> Iterator[Path]:
    """A private file with the text. If the block fails after the text was changed, it is kept."""
    folder = Path(tempfile.mkdtemp(prefix="memoryd-edit-"))
    path = folder / "memory.md"
    try:
        path.write_bytes(content.encode())
        yield path
    except BaseException:
        text = path.read_bytes() if path.is_file() else b""
        if text.strip() and text.removesuffix(b"\n") != content.encode().removesuffix(b"\n"):
            note(f"The edited text is kept in {path}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def edited(path: Path, before: str) -> str:
    """The text in the file, without the newline that editors add at its end."""
    try:
        content = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidInput(
            "The edited text cannot be read, or is not UTF-8.", code="content_not_text"
        ) from exc
    if not content.strip():
        raise InvalidInput(
            "The text is empty; nothing was stored.",
            code="content_empty",
            hint="To delete the memory, use memoryd forget.",
        )
    added = content.endswith("\n") and not before.endswith("\n")
    return content.removesuffix("\n") if added else content


def run_editor(command: list[str], path: Path) -> None:
    """Run the editor until it ends. MemorydError if it fails."""
    code = subprocess.run([*command, str(path)], check=False).returncode
    if code:
        raise MemorydError(
            f"The editor ended with exit code {code}; nothing was stored.", code="editor_failed"
        )


def _tell_unchanged(before: dict[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        say_json({"id": before["id"], "changed": False})
    else:
        say(f"Unchanged: {before['type']} {before['id']}")


async def _read(options: argparse.Namespace) -> dict[str, Any]:
    async with connect(options) as daemon:
        return await daemon.read_memory(options.memory)


async def _save(options: argparse.Namespace, before: dict[str, Any], content: str) -> Updated:
    async with connect(options) as daemon:
        now = await daemon.read_memory(before["id"])
        if now["content"] != before["content"]:
            raise MemorydError(
                "The memory was changed while it was edited; nothing was stored.",
                code="changed_meanwhile",
                hint="Edit it again.",
            )
        return await daemon.update_memory(before["id"], content=content)
