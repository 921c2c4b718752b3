"""Who sees a memory: its owner and its audience, two well-known metadata keys.

A memory is `private` (only on the machine where it was stored), of its `project` (for everyone who
works on the project) or of the `team` (for everyone on the same Chroma server). This matters only
for a store that several people share; everywhere else the two keys are carried along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryd.fields import (
    AUDIENCE,
    AUDIENCES,
    IN_PROJECT,
    OWNER,
    PRIVATE,
    PROJECT,
    TEAM,
    project_of,
)
from memoryd.model import Memory

ALL_PROJECTS = "*"
Scope = tuple[str, str | None]  # audience, and the project if that decides who sees it


def audience_of(memory: Memory) -> str:
    """Its audience. Without one it is of the team: on a server it was there before audiences."""
    value = memory.metadata.get(AUDIENCE)
    return value if value in AUDIENCES else TEAM


def is_private(memory: Memory) -> bool:
    return audience_of(memory) == PRIVATE


def owner_of(memory: Memory) -> str | None:
    value = memory.metadata.get(OWNER)
    return value if isinstance(value, str) else None


def scope_of(memory: Memory) -> Scope:
    """Those who see it. A name is unique among the memories of one scope."""
    audience = audience_of(memory)
    return audience, project_of(memory) if audience == IN_PROJECT else None


def address_rank(memory: Memory) -> int:
    """If several memories have one name, it means the one with the smallest audience."""
    return AUDIENCES.index(audience_of(memory)) if AUDIENCE in memory.metadata else len(AUDIENCES)


def may_name(memory: Memory, named: Memory) -> bool:
    """Whether a relation of `memory` may hold the id of `named`: not if someone sees the first and
    must not know of the second."""
    if is_private(memory) or audience_of(named) == TEAM:
        return True
    return scope_of(memory) == scope_of(named)


@dataclass(frozen=True, slots=True)
class Viewer:
    """The user of a daemon, and the projects whose memories of others he may see."""

    owner: str
    projects: tuple[str, ...] = ()

    @property
    def sees_all_projects(self) -> bool:
        return ALL_PROJECTS in self.projects

    def may_see(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a memory on the server with this metadata may be shown."""
        audience = metadata.get(AUDIENCE)
        if audience == PRIVATE:
            return False  # it is not ours: ours are never there
        if audience != IN_PROJECT or self.sees_all_projects:
            return True
        return metadata.get(OWNER) == self.owner or metadata.get(PROJECT) in self.projects
