"""Anthropic's memory tool, with notes as its files: an agent's `/memories` directory is our memory.

    with SyncClient(start=True) as memory:
        tool = MemoryTool(memory)
        tool.call({"command": "create", "path": "/memories/plan.md", "file_text": "Build."})

A file is a note whose name is its path, so searches find it. There are no directories: one exists
while a file is below it. Answers and errors are those of the file-based tool in Anthropic's SDK,
word for word, because models are trained with them. Where that tool says nothing, such as on a file
in the place of a directory, the error is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any

from memoryd.client.client import Client
from memoryd.client.errors import MemoryToolError
from memoryd.client.sync_client import SyncClient
from memoryd.errors import InvalidInput, MemorydError, NotFound
from memoryd.labels import folded_name, normal_name

ROOT = "/memories"
MAX_LINES = 999_999
WIDTH = len(str(MAX_LINES))  # of a line number
DEPTH = 2  # levels of directories that a view shows
AROUND = 2  # lines before and after a change that the answer shows
EMPTY = "(This file is empty.)"  # a note has some text; no other file has this one
KIND = "note"
DEFINITION = {"type": "memory_20250818", "name": "memory"}
NEEDED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "view": {"path": str},
    "create": {"path": str, "file_text": str},
    "str_replace": {"path": str, "old_str": str},
    "insert": {"path": str, "insert_line": int, "insert_text": str},
    "delete": {"path": str},
    "rename": {"old_path": str, "new_path": str},
}
Command = Mapping[str, Any]


class AsyncMemoryTool:
    """Handles the commands of the memory tool. Raises MemoryToolError with what the model should
    read, and other errors of memoryd if the daemon cannot be reached."""

    def __init__(self, client: Client) -> None:
        self._notes = client.notes

    def to_dict(self) -> dict[str, str]:
        """The tool, for `tools` of a request."""
        return dict(DEFINITION)

    async def call(self, input: Command) -> str:
        """The answer to a command: the `input` of a `tool_use` block."""
        name = str(input.get("command"))
        handle = self._handlers().get(name)
        if handle is None:
            raise MemoryToolError(f"Unknown command: {name}")
        for key, kind in NEEDED[name].items():
            if not isinstance(input.get(key), kind) or isinstance(input.get(key), bool):
                raise MemoryToolError(f"The command {name} needs `{key}`.")
        try:
            return await handle(input)
        except MemoryToolError:
            raise
        except (InvalidInput, NotFound) as exc:
            raise MemoryToolError(exc.message) from exc

    async def result(self, block: Any) -> dict[str, Any]:
        """The `tool_result` block for a `tool_use` block, an object of the SDK or a mapping; it
        says so if the command failed, for whatever reason."""
        given = block if isinstance(block, Mapping) else vars(block)
        return await _result(self.call, given["id"], given["input"])

    def _handlers(self) -> dict[str, Callable[[Command], Coroutine[Any, Any, str]]]:
        return {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

    async def _view(self, given: Command) -> str:
        path = given["path"]
        place = _place(path)
        files = await self._files()
        text = await self._text(place)
        if text is not None:
            return _numbered_view(path, text, given.get("view_range"))
        if place != ROOT and not any(_is_below(file, place) for file in files):
            raise MemoryToolError(_missing(path) + " Please provide a valid path.")
        shown = _listed(place, files)
        below = [file for file in files if _is_below(file, place)]
        sizes = {file: len((await self._text(file) or "").encode()) for file in below}
        lines = [f"{_size(sum(sizes.values()))}\t{path}"]
        for name in shown:
            inside = sum(size for file, size in sizes.items() if _is_below(file, name))
            size, mark = (sizes[name], "") if name in sizes else (inside, "/")
            lines.append(f"{_size(size)}\t{path.rstrip('/')}{_inside(name, place)}{mark}")
        head = f"Here're the files and directories up to {DEPTH} levels deep in {path}, "
        return "\n".join([f"{head}excluding hidden items:", *lines])

    async def _create(self, given: Command) -> str:
        path = given["path"]
        place = _place(path)
        await self._check_new(place, f"File {path} already exists")
        await self._notes.add(place, given["file_text"] if given["file_text"].strip() else EMPTY)
        return f"File created successfully at: {path}"

    async def _str_replace(self, given: Command) -> str:
        path, old, new = given["path"], given["old_str"], given.get("new_str")
        place, text = await self._file(path)
        if not old or old not in text:
            raise MemoryToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if text.count(old) > 1:
            found = ", ".join(map(str, _lines_with(text, old)))
            raise MemoryToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{found}. Please ensure it is unique"
            )
        changed = text.replace(old, new if isinstance(new, str) else "")
        await self._write(place, changed)
        line = text[: text.find(old)].count("\n")
        lines = changed.split("\n")
        first, last = max(0, line - AROUND), min(len(lines), line + AROUND + 1)
        snippet = _numbered(lines[first:last], first + 1)
        head = "The memory file has been edited. Here is the snippet showing the change "
        return f"{head}(with line numbers):\n{snippet}"

    async def _insert(self, given: Command) -> str:
        path, number = given["path"], given["insert_line"]
        place, text = await self._file(path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if not 0 <= number <= len(lines):
            raise MemoryToolError(
                f"Invalid `insert_line` parameter: {number}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(number, given["insert_text"].rstrip("\n"))
        changed = "\n".join(lines)
        await self._write(place, changed if changed.endswith("\n") else changed + "\n")
        return f"The file {path} has been edited."

    async def _delete(self, given: Command) -> str:
        path = given["path"]
        place = _place(path)
        if place == ROOT:
            raise MemoryToolError(f"Cannot delete the {ROOT} directory itself")
        below = await self._at(place)
        if not below:
            raise MemoryToolError(_missing(path).rstrip("."))
        for name in below:
            await self._notes.remove(name)
        return f"Successfully deleted {path}"

    async def _rename(self, given: Command) -> str:
        old, new = given["old_path"], given["new_path"]
        place, target = _place(old), _place(new)
        if place == ROOT:
            raise MemoryToolError(f"Cannot rename the {ROOT} directory itself")
        await self._check_new(target, f"The destination {new} already exists")
        below = await self._at(place)
        if not below:
            raise MemoryToolError(_missing(old).rstrip("."))
        if _is_below(target, place):
            raise MemoryToolError(f"Cannot rename {old} into itself")
        for name in below:
            await self._notes.rename(name, target + _inside(name, place))
        return f"Successfully renamed {old} to {new}"

    async def _files(self) -> list[str]:
        """The paths of all files, in order."""
        found: list[str] = []
        after: int | None = None
        while True:
            page = (await self._notes.list(kind=KIND, after=after))["notes"]
            found += [note["name"] for note in page if note["name"].startswith(f"{ROOT}/")]
            if not page or page[-1]["seq"] == after:
                return sorted(found, key=lambda path: path.split("/"))
            after = page[-1]["seq"]

    async def _at(self, place: str) -> list[str]:
        """The file at this path, or the files below it."""
        files = await self._files()
        return [file for file in files if _key(file) == _key(place) or _is_below(file, place)]

    async def _text(self, place: str) -> str | None:
        """The text of a file; None if there is none at this path."""
        try:
            note = await self._notes.read(place) if place != ROOT else None
        except NotFound:
            return None
        if note is None or note["kind"] != KIND:
            return None
        text = note.get("content", "")
        return "" if text == EMPTY else text

    async def _file(self, path: str) -> tuple[str, str]:
        """The place and the text of a file that is there."""
        place = _place(path)
        if (text := await self._text(place)) is not None:
            return place, text
        if place == ROOT or await self._at(place):
            raise MemoryToolError(f"The path {path} is not a file.")
        raise MemoryToolError(_missing(path) + " Please provide a valid path.")

    async def _write(self, place: str, text: str) -> None:
        await self._notes.write(place, text if text.strip() else EMPTY)

    async def _check_new(self, place: str, message: str) -> None:
        """Refuse a path where something is, or that is below a file."""
        if place == ROOT or await self._text(place) is not None or await self._at(place):
            raise MemoryToolError(message)
        above = place.rpartition("/")[0]
        while above != ROOT:
            if await self._text(above) is not None:
                raise MemoryToolError(f"The path {above} is a file, not a directory.")
            above = above.rpartition("/")[0]


class MemoryTool:
    """The same for code without async."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._tool = AsyncMemoryTool(client._client)

    def to_dict(self) -> dict[str, str]:
        """The tool, for `tools` of a request."""
        return self._tool.to_dict()

    def call(self, input: Command) -> str:
        """The answer to a command: the `input` of a `tool_use` block."""
        return self._client._run(self._tool.call, input)

    def result(self, block: Any) -> dict[str, Any]:
        """The `tool_result` block for a `tool_use` block."""
        return self._client._run(self._tool.result, block)


async def _result(
    call: Callable[[Command], Coroutine[Any, Any, str]], id: str, input: Command
) -> dict[str, Any]:
    made = {"type": "tool_result", "tool_use_id": id}
    try:
        return made | {"content": await call(input)}
    except MemorydError as exc:
        return made | {"content": exc.message, "is_error": True}


def _place(path: str) -> str:
    """The path as the name of a note, without what is not needed in it. Raises MemoryToolError if
    it leads out of the root."""
    name = normal_name(path)  # first: it makes plain dots and slashes of some other characters
    if name != ROOT and not name.startswith(f"{ROOT}/"):
        raise MemoryToolError(f"Path must start with {ROOT}, got: {path}")
    parts: list[str] = []
    for part in name[len(ROOT) :].split("/"):
        if part == ".." and not parts:
            raise MemoryToolError(f"Path {path} would escape {ROOT} directory")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join([ROOT, *parts])


@lru_cache(maxsize=4096)
def _key(path: str) -> str:
    """What the paths of one file have in common: case and accents make no difference in names."""
    return folded_name(path)


def _is_below(path: str, directory: str) -> bool:
    return _key(path).startswith(f"{_key(directory)}/")


def _inside(path: str, directory: str) -> str:
    """The part of a path after its directory, whose spelling may differ from the given one."""
    return "".join(f"/{part}" for part in path.split("/")[directory.count("/") + 1 :])


def _missing(path: str) -> str:
    return f"The path {path} does not exist."


def _listed(directory: str, files: list[str]) -> list[str]:
    """The files and directories that a view of a directory shows, in order."""
    found: dict[str, None] = {}
    for file in files:
        if not _is_below(file, directory):
            continue
        parts = _inside(file, directory)[1:].split("/")
        for depth in range(1, min(len(parts), DEPTH) + 1):
            if any(part.startswith(".") for part in parts[:depth]):
                break
            rest = len(parts) - depth
            found[file.rsplit("/", rest)[0]] = None
    return sorted(found, key=lambda path: path.split("/"))


def _numbered_view(path: str, text: str, view_range: object) -> str:
    lines, first = text.split("\n"), 1
    if len(lines) > MAX_LINES:
        raise MemoryToolError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
    if isinstance(view_range, list | tuple) and len(view_range) == 2:
        start, end = view_range
        if not isinstance(start, int) or not isinstance(end, int):
            raise MemoryToolError("`view_range` must be two whole numbers.")
        first = max(1, start)
        lines = lines[first - 1 : len(lines) if end == -1 else end]
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first)}"


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>{WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _lines_with(text: str, part: str) -> list[int]:
    """The line of each place where a part begins, also of places that overlap."""
    found, at = [], text.find(part)
    while at != -1:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(part, at + 1)
    return found


def _size(count: int) -> str:
    """Bytes as the tool shows them: 0B, 512B, 1.5K, 2M."""
    size, unit = float(count), "B"
    for unit in "BKMG":
        if size < 1024 or unit == "G":
            break
        size /= 1024
    return f"{int(size)}{unit}" if size == int(size) else f"{size:.1f}{unit}"
