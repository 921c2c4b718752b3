"""The projects of a daemon: list, rename, merge, move and forget.

    async with Client(project="acme/app") as memory:
        await memory.projects.rename("~/work/app", "acme/app")

All but `list` are for the owner of the memories, at the local socket. The daemon moves and forgets
in batches. If a rename is interrupted, each memory is in the old or in the new project, and `merge`
moves the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypedDict, cast

from memoryd.client.calls import Run, Tool
from memoryd.errors import NotFound
from memoryd.labels import normal_name


class ProjectFacts(TypedDict):
    """A project and how many memories it has. `project` None: the shared ones."""

    project: str | None
    memories: int
    types: dict[str, int]
    newest: str


class ProjectList(TypedDict):
    """The projects that have memories, the largest first; `own`: that of this connection."""

    own: str | None
    projects: list[ProjectFacts]


class Moved(TypedDict):
    """How many memories a call moved, how many are left, and ids that do not exist."""

    moved: int
    left: int
    missing: list[str]


class Projects:
    """Each method is one or more calls on the daemon."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    async def list(self) -> ProjectList:
        """Every project with the counts of its memories."""
        return cast(ProjectList, await self._tool("list_projects", {}))

    async def rename(self, project: str, to: str) -> int:
        """Give a project another name, which no project has yet; how many memories it has. Raises
        NotFound and InvalidInput."""
        done = await self._tool("rename_project", {"project": project, "to": to})
        moved = int(done["moved"])
        if done["left"]:
            with suppress(NotFound):  # the rest was moved or forgotten by another call
                moved += await self.merge(project, to)
        return moved

    async def merge(self, project: str, into: str) -> int:
        """Move all memories of a project into another; how many. Raises NotFound."""
        done = await self._tool("merge_projects", {"project": project, "into": into})
        moved = int(done["moved"])
        while done["left"]:
            try:
                done = await self._tool("merge_projects", {"project": project, "into": into})
            except NotFound:  # the rest was moved or forgotten by another call
                break
            moved += done["moved"]
        return moved

    async def move(self, memory_ids: Sequence[str], to: str | None) -> Moved:
        """Move memories, by id or name, into a project; None: make them shared."""
        given = {"memory_ids": [*memory_ids], "to": to}
        return cast(Moved, await self._tool("move_memories", given))

    async def forget(self, project: str) -> int:
        """Delete all memories of a project for good; how many."""
        chosen, gone = {"project": normal_name(project)}, 0
        while True:
            done = await self._tool("forget_where", {"metadata": chosen})
            gone += int(done["forgotten"])
            if done["forgotten"] in (0, done["matched"]):
                return gone


class SyncProjects:
    """The same for code without async."""

    def __init__(self, projects: Projects, run: Run) -> None:
        self._projects = projects
        self._run = run

    def list(self) -> ProjectList:
        return self._run(self._projects.list)

    def rename(self, project: str, to: str) -> int:
        return self._run(self._projects.rename, project, to)

    def merge(self, project: str, into: str) -> int:
        return self._run(self._projects.merge, project, into)

    def move(self, memory_ids: Sequence[str], to: str | None) -> Moved:
        return self._run(self._projects.move, memory_ids, to)

    def forget(self, project: str) -> int:
        return self._run(self._projects.forget, project)
