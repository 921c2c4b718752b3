"""The archives of sessions as the files HISTORY.md and HISTORY-YYYY-MM.md."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import anyio.to_thread

from memoryd.engine.parts import Parts
from memoryd.errors import MirrorError
from memoryd.fields import is_archive
from memoryd.formats import history_md
from memoryd.ports import MirrorFiles


class History:
    """Writes the files when archives have changed. One call at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # The archives as last written, each with the number of its last change; None: unknown.
        self._written: frozenset[tuple[str, int | None]] | None = None

    def __len__(self) -> int:
        """How many archives are in the files."""
        return len(self._written or ())

    def may_have(self, ids: Collection[str]) -> bool:
        """Whether one of these memories can be in a file."""
        return self._written is None or any(id in ids for id, _ in self._written)

    async def write(self, files: MirrorFiles) -> None:
        """Write what differs from the last time. Raises OSError and MirrorError."""
        index = self._parts.index
        archives = [note for note in index.notes() if is_archive(note)]
        state = frozenset((note.id, index.revision(note.id)) for note in archives)
        if state == self._written:
            return
        self._written = None  # until all is written
        sections = [history_md.Section(n.created_at, n.name or "", n.content) for n in archives]
        wanted = history_md.files_of(sections, self._parts.lifetimes.zone)
        await anyio.to_thread.run_sync(_write_files, files, wanted)
        self._written = state


def _write_files(files: MirrorFiles, wanted: dict[str, str]) -> None:
    """Write the files that differ, and remove those without archives. The newest last: after a kill
    in between an archive is in two files, not in none. A file of somebody else is left alone."""
    names = filter(history_md.is_named, files.names())
    present = {name: files.read(name) or "" for name in names}
    others = {name for name, text in present.items() if not history_md.is_ours(text)}
    for name in sorted(wanted.keys() - others, key=lambda name: (name == history_md.NEWEST, name)):
        if present.get(name) != wanted[name]:
            files.write(name, wanted[name])
    for name in present.keys() - wanted.keys() - others:
        files.remove(name)
    if blocked := sorted(others & wanted.keys()):
        raise foreign(blocked)


def foreign(names: Sequence[str]) -> MirrorError:
    """The error for files in the folder that the mirror did not write and does not replace."""
    return MirrorError(
        f"The folder of mirror.path has files that this memoryd did not write: {', '.join(names)}.",
        code="mirror_foreign",
        hint="Take them over with `memoryd import FILE`, then move them away.",
    )
