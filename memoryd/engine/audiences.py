"""The rules of a store that several people share: who a new memory is for, and who may change what.

Everyone who sees a memory may correct and forget it. Only its owner may change who sees it: its
audience, and the project of a memory that is for its project. Nobody changes the owner. The default
audience is for what somebody asked to store. Everything else is private: what memoryd itself makes
of other memories, because it says what they say, and what it takes in by itself.

The store decides what is loaded, so the rest of the engine sees nothing that it may not show. In an
embedded store the rules do nothing: it has one user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memoryd.audience import Viewer, audience_of, is_private, may_name, owner_of, scope_of
from memoryd.errors import InvalidInput
from memoryd.fields import (
    AUDIENCE,
    IN_PROJECT,
    OWNER,
    PRIVATE,
    RELATIONS,
    SUPERSEDED_BY,
    ids_of,
    project_of,
)
from memoryd.model import Memory
from memoryd.settings import StoreSettings

Get = Callable[[str], Memory | None]


@dataclass(frozen=True, slots=True)
class Audiences:
    """The rules for one daemon. `viewer` None: the store has one user, and there are none."""

    viewer: Viewer | None = None
    default: str = PRIVATE

    def own(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata of a memory that nobody asked to store, whatever audience it names."""
        return {**metadata, **({AUDIENCE: PRIVATE} if self.viewer else {})}

    def check_given(self, metadata: Mapping[str, Any]) -> None:
        """Raise InvalidInput if a caller stores a memory that is to have another owner."""
        given = metadata.get(OWNER)
        if self.viewer and given is not None and given != self.viewer.owner:
            raise _not_changed()

    def place(self, asked: Memory, named: Iterable[Memory]) -> Memory | None:
        """The memory that is replaced by storing under its name. Without an audience that is the
        user's own, or one of the default audience: a text never gets a larger audience than asked
        for because someone else has used its name."""
        found = list(named)
        if self.viewer is None:
            return found[0] if found else None
        if asked.metadata.get(AUDIENCE) is None:
            for memory in found:
                if is_private(memory) or owner_of(memory) == self.viewer.owner:
                    return memory
        scope = scope_of(self.settled(asked, None))
        return next((memory for memory in found if scope_of(memory) == scope), None)

    def are_alike(self, asked: Memory, place: Memory | None, twin: Memory) -> bool:
        """Whether storing `asked` may be merged with an identical fact: it has the same audience.
        `place`: the memory that has its name."""
        if self.viewer is None:
            return True
        return scope_of(self.settled(asked, place)) == scope_of(twin)

    def settled(self, memory: Memory, before: Memory | None) -> Memory:
        """The memory with an owner and an audience: those of `before`, which it replaces, or the
        default ones. Without a project, the default is never `project`."""
        if self.viewer is None:
            return memory
        made = dict(memory.metadata)
        if made.get(AUDIENCE) is None:
            made[AUDIENCE] = audience_of(before) if before else self._default_for(memory)
        if before is not None and made.get(OWNER) is None:
            made |= {OWNER: owner} if (owner := owner_of(before)) else {}
        elif before is None and made.get(OWNER) is None:
            made[OWNER] = self.viewer.owner
        return replace(memory, metadata=made) if made != memory.metadata else memory

    def _default_for(self, memory: Memory) -> str:
        has_project = project_of(memory) is not None
        return PRIVATE if self.default == IN_PROJECT and not has_project else self.default

    def stays_here(self, memory: Memory, before: Memory | None = None) -> bool:
        """Whether it is, and was, private: then no other daemon needs to be asked."""
        if self.viewer is None:
            return False
        private = is_private(self.settled(memory, before))
        return private and (before is None or is_private(before))

    def may_make_facts_of(self, memory: Memory) -> bool:
        """Whether what is said on this machine may refresh or supersede this fact unasked."""
        return self.viewer is None or is_private(memory)

    def may_mend(self, memory: Memory) -> bool:
        """Whether ids that are unknown here may be removed from its relations: in a memory of
        another owner they may be those of memories that this user does not see."""
        return self.viewer is None or is_private(memory) or owner_of(memory) == self.viewer.owner

    def may_place(self, memory: Memory) -> bool:
        """Whether the user may put it into another project."""
        return audience_of(memory) != IN_PROJECT or self._is_owner(memory)

    def check_change(self, before: Memory | None, after: Memory) -> None:
        """Raise InvalidInput if the user may not store `after` in place of `before`."""
        if self.viewer is None:
            return
        if audience_of(after) == IN_PROJECT and project_of(after) is None:
            raise InvalidInput(
                "A memory without a project cannot have the audience project.",
                code="audience_invalid",
                hint="Give its project, or the audience private or team.",
            )
        if before is None:
            if not is_private(after) and not self.viewer.may_see(after.metadata):
                raise InvalidInput(
                    "It is of a project and an owner that this user does not see.",
                    code="audience_invalid",
                    hint="Add the project to store.projects.",
                )
            return
        if owner_of(after) != owner_of(before):
            raise _not_changed()
        if scope_of(after) != scope_of(before) and not self._is_owner(before):
            raise InvalidInput(
                f"Only its owner, {owner_of(before)!r}, may change who sees this memory.",
                code="not_owner",
                hint="Ask the owner, or store it as a memory of your own.",
            )

    def _is_owner(self, memory: Memory) -> bool:
        """A memory from before there were owners is everyone's."""
        return self.viewer is None or owner_of(memory) in (None, self.viewer.owner)

    def check_relations(self, before: Memory | None, after: Memory, get: Get) -> None:
        """Raise InvalidInput if a relation that is new, or that more people are to see, names a
        memory that they must not know of."""
        if self.viewer is None:
            return
        widened = before is None or scope_of(before) != scope_of(after)
        for key in (*RELATIONS, SUPERSEDED_BY):
            known = set() if widened or before is None else set(ids_of(before, key))
            for id in set(ids_of(after, key)) - known:
                if (named := get(id)) is not None and not may_name(after, named):
                    raise InvalidInput(
                        f"{key} names the memory {id}, which has a smaller audience.",
                        code="relation_private",
                        hint="Give both the same audience, or remove the relation.",
                    )

    def without_hidden(self, memory: Memory, get: Get) -> Memory:
        """The memory without ids in its relations that those who see it must not know. The other
        side of a relation has them, so nothing is lost."""
        if self.viewer is None or is_private(memory):
            return memory
        made = dict(memory.metadata)
        for key in (*RELATIONS, SUPERSEDED_BY):
            old = ids_of(memory, key)
            kept = [id for id in old if (named := get(id)) is None or may_name(memory, named)]
            if kept != old:
                made.pop(key)
                made |= {key: kept} if kept else {}
        return replace(memory, metadata=made) if made != memory.metadata else memory


def audiences_of(settings: StoreSettings) -> Audiences:
    """The rules for a store that is shared."""
    return Audiences(Viewer(settings.owner, settings.projects), settings.audience)


def with_audience(
    metadata: Mapping[str, Any] | None, audience: str | None
) -> Mapping[str, Any] | None:
    """Metadata that also has this audience, if one is given."""
    if audience is None or not (metadata is None or isinstance(metadata, Mapping)):
        return metadata
    return {**(metadata or {}), AUDIENCE: audience}


def _not_changed() -> InvalidInput:
    return InvalidInput(
        "The owner of a memory cannot be changed.",
        code="owner_invalid",
        hint="Leave out the metadata key owner.",
    )
