"""An export as one JSON object, indented, for programs that do not read JSON lines.

    {"memoryd": "export", "version": 1, "model": ..., "memories": [{"id": ..., ...}, ...]}

A plain list of memories is read too. There is no checksum, so the file may be changed by hand.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, Any

from memoryd.export_file import FORMAT, NEEDED, Header

MEMORIES = "memories"
INDENT = 2
Fields = dict[str, Any]


class JsonWriter:
    """Writes the object memory by memory."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        self._file = file
        self.count = 0
        facts = {key: value for key, value in asdict(header).items() if value is not None}
        facts.pop("count", None)  # it was taken at the beginning, and the list has the exact one
        text = _indented({"memoryd": "export", "version": FORMAT} | facts)
        self._write(f'{text.removesuffix("}").rstrip()},\n{" " * INDENT}"{MEMORIES}": [')

    def memory(self, fields: Fields) -> None:
        comma = "," if self.count else ""
        margin = "\n" + " " * 2 * INDENT
        self._write(comma + margin + _indented(fields).replace("\n", margin))
        self.count += 1

    def end(self) -> None:
        gap = f"\n{' ' * INDENT}" if self.count else ""
        self._write(f"{gap}]\n}}\n")

    def _write(self, text: str) -> None:
        self._file.write(text.encode())


def read(text: str) -> tuple[Header, list[Fields]]:
    """The memories and what the file says of their vectors. Raises ValueError with a line number
    and a sentence."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        raise ValueError(exc.lineno, "it is not JSON") from None
    except (ValueError, RecursionError):
        raise ValueError(1, "it is not JSON") from None
    facts = value if isinstance(value, dict) else {}
    version, memories = facts.get("version", FORMAT), facts.get(MEMORIES, value)
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(1, f"a newer memoryd wrote it (format {version}, known: {FORMAT})")
    if not isinstance(memories, list):
        raise ValueError(1, f"this is neither a list of memories nor an object with `{MEMORIES}`")
    for place, memory in enumerate(memories, start=1):
        _check(memory, place)
    model = facts.get("model")
    header = Header(
        model=model if isinstance(model, str) else None,
        embeddings=facts.get("embeddings") is True,
    )
    return header, memories


def _indented(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=INDENT)


def _check(memory: object, place: int) -> None:
    if not isinstance(memory, dict):
        raise ValueError(1, f"memory {place} is not a JSON object")
    for key, kind in NEEDED.items():
        if not isinstance(memory.get(key), kind):
            raise ValueError(1, f"`{key}` of memory {place} is missing or of the wrong type")
    memory.setdefault("expires_at", None)
