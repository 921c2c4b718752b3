"""The facts that MEMORY.md shows: shared ones, pinned and most trusted first."""

from __future__ import annotations

from memoryd.engine.lifecycle.decay import confidence_now
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.fields import WORKING_MEMORY, is_archive, is_session_record, kind_of, trust_of
from memoryd.model import Memory, MemoryType


def durable_facts(parts: Parts, project: str | None, now: float) -> list[Memory]:
    """The facts that may be in every prompt, best first, at most `sessions.max_memory_size` bytes
    of text."""
    found = pushable(filter(_is_plain_fact, parts.index), project, parts.index, now)

    def order(memory: Memory) -> tuple[bool, float, float, str]:
        sure = confidence_now(memory, now) * trust_of(memory, parts.lifecycle.trust)
        return not memory.pinned, -sure, -memory.created_at, memory.id

    room, taken = parts.sessions.max_memory_size, []
    for memory in sorted(found, key=order):
        size = len(memory.content.encode()) + 1
        if size <= room:
            taken.append(memory)
            room -= size
    return taken


def _is_plain_fact(memory: Memory) -> bool:
    return (
        memory.type is MemoryType.FACT
        and not is_archive(memory)
        and not is_session_record(memory)
        and kind_of(memory) != WORKING_MEMORY
    )
