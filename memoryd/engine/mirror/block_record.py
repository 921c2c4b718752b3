"""Which files have a block that memoryd keeps; a person named each of them. Kept between starts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from memoryd.errors import InvalidInput, MirrorError

RECORD = "blocks.json"  # in the data directory
MAX_BLOCKS = 100
ENDINGS = (".md", ".mdc", ".markdown")
NAMES = (".clinerules", ".cursorrules", ".goosehints", ".windsurfrules")


@dataclass(slots=True)
class Block:
    """A file with a block. `gap`: what was put before the block, to be taken out with it; `made`:
    the file was created for the block. The rest is known from the last writing on."""

    path: str
    project: str | None
    gap: str = ""
    made: bool = False
    ids: frozenset[str] | None = field(default=None, compare=False)  # in the block; None: unknown
    expires_at: float | None = field(default=None, compare=False)  # the first of them
    stamp: object = field(default=None, compare=False)
    written_at: float | None = field(default=None, compare=False)
    trouble: MirrorError | None = field(default=None, compare=False)

    def state(self) -> dict[str, Any]:
        """Facts for `status`, without texts."""
        return {
            "path": self.path,
            "project": self.project,
            "facts": len(self.ids or ()),
            "written_at": self.written_at,
            "trouble": self.trouble,
        }


def record_text(blocks: dict[str, Block]) -> str:
    kept = ("path", "project", "gap", "made")
    return json.dumps({"blocks": [{key: getattr(b, key) for key in kept} for b in blocks.values()]})


def blocks_from(text: str | None) -> dict[str, Block]:
    """The blocks of a record by their paths. Raises MirrorError if it is damaged: an empty list in
    its place would leave blocks that nobody keeps current."""
    try:
        found: Any = json.loads(text or '{"blocks": []}')["blocks"]
        made = [
            Block(
                str(b["path"]), b["project"] and str(b["project"]), str(b["gap"]), bool(b["made"])
            )
            for b in found
        ]
    except (ValueError, KeyError, TypeError) as exc:
        raise MirrorError(
            f"The list of files with a block, {RECORD} in the data directory, is damaged.",
            code="blocks_damaged",
            hint="Delete it, and name each file again: memoryd mirror --block FILE",
        ) from exc
    return {block.path: block for block in made}


def check_path(value: object) -> str:
    """The path of a file that can have a block. Raises InvalidInput."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidInput("The path of a file is missing.", code="block_invalid")
    path = PurePath(value)
    if not path.is_absolute() or ".." in path.parts:
        raise InvalidInput(f"{value} is not an absolute path.", code="block_invalid")
    # A block holds texts that anybody stored: in a file that a program runs, they would be run.
    if path.suffix.lower() not in ENDINGS and path.name not in NAMES:
        known = ", ".join((*ENDINGS, *NAMES))
        raise InvalidInput(
            f"{path.name} is not a file of instructions for agents.",
            code="block_invalid",
            hint=f"Use one whose name ends in {known}.",
        )
    return value
