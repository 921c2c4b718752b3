"""Who has which name: the names of all memories, and the aliases of notes.

A plain name is compared exactly, as it always was. The name and the aliases of a note are compared
without case and accents, and come first: a name that a note has means the note.
"""

from __future__ import annotations

from memoryd.fields import handles_of, is_note, seq_of
from memoryd.labels import folded_name
from memoryd.model import Memory


class Names:
    """By name, the slots of memories."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # the newest memory with a name
        self._older: dict[str, list[int]] = {}  # others with it, older first
        self._folded: dict[str, list[int]] = {}  # by folded name or alias
        self._of: dict[int, tuple[str, set[str]]] = {}  # by slot: its name, and what is folded
        self._notes: set[int] = set()
        self.last_seq = 0  # the highest of any note so far

    def put(self, slot: int, memory: Memory) -> None:
        if memory.name is None:
            return
        if (before := self._newest.get(memory.name)) is not None:
            self._older.setdefault(memory.name, []).append(before)
        self._newest[memory.name] = slot
        handles = {folded_name(handle) for handle in handles_of(memory)}
        for handle in handles:
            self._folded.setdefault(handle, []).append(slot)
        self._of[slot] = (memory.name, handles)
        if is_note(memory):
            self._notes.add(slot)
            self.last_seq = max(self.last_seq, seq_of(memory))

    def remove(self, slot: int) -> None:
        if slot not in self._of:
            return
        name, handles = self._of.pop(slot)
        self._release(name, slot)
        for handle in handles:
            self._folded[handle].remove(slot)
            if not self._folded[handle]:
                del self._folded[handle]
        self._notes.discard(slot)

    def _release(self, name: str, slot: int) -> None:
        others = self._older.get(name, [])
        if self._newest[name] != slot:
            others.remove(slot)
        elif others:
            self._newest[name] = others.pop()
        else:
            del self._newest[name]
        if not others:
            self._older.pop(name, None)

    def of(self, name: str) -> list[int]:
        """The slots that a name means: the note that has it, then the newest memory with exactly
        this name, then older ones."""
        notes = [slot for slot in self.alike(name) if slot in self._notes]
        exact = [self._newest[name], *self._older.get(name, ())] if name in self._newest else []
        return list(dict.fromkeys([*notes, *exact]))

    def alike(self, name: str) -> list[int]:
        """The slots of all memories that have a name, or notes that have an alias, which differs
        from this one at most in case and accents."""
        return self._folded.get(folded_name(name), [])

    def repeated(self) -> list[str]:
        """The names that several memories have."""
        return list(self._older)

    def names_of(self, slots: set[int]) -> list[str]:
        """The names of those of these slots that have one."""
        return [name for slot, (name, _) in self._of.items() if slot in slots]

    def notes(self) -> set[int]:
        """The slots of all notes."""
        return self._notes.copy()
