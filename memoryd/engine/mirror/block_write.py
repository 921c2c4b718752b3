"""Writes the block of one file, and takes it out. Synchronous: call it on a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from memoryd.engine.mirror.block_record import Block
from memoryd.errors import MirrorError
from memoryd.files import NotAFile
from memoryd.formats import claude_md
from memoryd.ports import BlockFiles

ATTEMPTS = 5  # at a file that another program changes at the same time
DAMAGED, UNWRITABLE = "block_damaged", "block_unwritable"
GIVE_UP = "or run: memoryd mirror --no-block FILE"


def check_file(files: BlockFiles, path: str) -> str | None:
    """The text of a file that can get a block; None without a file. Raises MirrorError."""
    with _troubles(path):
        text = files.read(path)
        if text is not None:
            claude_md.find_block(text)
            text.encode()
        return text


def add_block(files: BlockFiles, path: str, block: str) -> bool:
    """Write the block of a file, or append it if there is none; whether anything was written.
    Raises MirrorError."""

    def change(text: str) -> str:
        if claude_md.find_block(text) is None:
            return claude_md.with_block(text, block)
        return claude_md.with_inside(text, block)

    with _troubles(path):
        return _put(files, path, files.read(path), change)


def write_block(files: BlockFiles, path: str, block: str) -> bool:
    """Write what is between the markers of a file, if it differs; whether anything was written.
    Raises MirrorError, also for a file without a block."""
    with _troubles(path):
        text = files.read(path)
        if text is None:
            message = f"{path} does not exist."
            raise MirrorError(message, code="block_no_file", hint=f"Restore it, {GIVE_UP}")
        if claude_md.find_block(text) is None:
            raise MirrorError(
                f"{path} has no block: its markers are gone.",
                code="block_missing",
                hint=f"To add it again, run: memoryd mirror --block FILE, {GIVE_UP}",
            )
        return _put(files, path, text, partial(_inside, block=block))


def take_out(files: BlockFiles, block: Block) -> None:
    """Remove the block from its file; the file too if it was made for the block and holds nothing
    else. Raises MirrorError."""
    cut = partial(claude_md.without_block, gap=block.gap)
    with _troubles(block.path):
        try:
            text = files.read(block.path)
        except NotAFile:
            return  # what is there now is not the file that was named
        if text is None or claude_md.find_block(text) is None:
            return  # somebody took it out already
        if block.made and not cut(text):
            files.remove(block.path)
        else:
            _put(files, block.path, text, cut)


def _inside(text: str, block: str) -> str:
    return claude_md.with_inside(text, block)


def _put(files: BlockFiles, path: str, present: str | None, change: Callable[[str], str]) -> bool:
    """Write a file as `change` makes it of its text, also of the text that another program writes
    in between; whether it was written."""
    base = _late(files, path) or present or ""
    written = False
    for _ in range(ATTEMPTS):
        try:
            wanted = change(base)
        except ValueError:
            if written:  # another program has just damaged the markers: its text stays
                files.replace(path, base, present)
            raise
        if wanted == present:
            break
        between = files.replace(path, wanted, present)
        written = True
        if between is None:
            break
        present, base = wanted, between
    return written


def _late(files: BlockFiles, path: str) -> str | None:
    """What a program wrote into the file after it was replaced, if that has a whole block."""
    late = files.late(path)
    try:
        return late if late and claude_md.find_block(late) else None
    except ValueError:
        return None


@contextmanager
def _troubles(path: str) -> Iterator[None]:
    """What goes wrong with a file, as MirrorError."""
    try:
        yield
    except UnicodeError as exc:
        message = f"{path} is not UTF-8 text."
        raise MirrorError(message, code=UNWRITABLE, hint="Convert it first.") from exc
    except ValueError as exc:
        line, sentence = exc.args
        raise MirrorError(
            f"{path}, line {line}: {sentence}.",
            code=DAMAGED,
            hint="Repair the markers, or delete them. The file was not changed.",
        ) from exc
    except OSError as exc:
        why = str(exc.strerror or exc)
        raise MirrorError(
            f"{why}." if isinstance(exc, NotAFile) else f"{path} cannot be written: {why}.",
            code=UNWRITABLE,
            hint="Check that it is a writable file of yours.",
        ) from exc
