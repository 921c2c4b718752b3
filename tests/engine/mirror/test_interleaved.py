"""A person and agents at work at the same time, in any order: no edit is lost, nothing that was
forgotten stays or comes back, and nothing else is forgotten."""

from __future__ import annotations

import random

import pytest

from memoryd.engine.engine import Engine
from tests.engine.mirror.conftest import Folder, Open

STEPS = 60


class World:
    """The texts that there must be by the rules, beside the engine that is tested."""

    def __init__(self, engine: Engine, folder: Folder, pick: random.Random) -> None:
        self.engine = engine
        self.folder = folder
        self.pick = pick
        self.texts: dict[str, str] = {}  # by id
        self.opened = folder.memory  # the file as the person has it open
        self.gone: set[str] = set()  # texts that were forgotten
        self._number = 0

    def new_text(self) -> str:
        self._number += 1
        return f"Text number {self._number} of this run."

    async def agent_stores(self) -> None:
        stored = await self.engine.store(self.new_text())
        self.texts[stored.memory.id] = stored.memory.content

    async def agent_updates(self) -> None:
        if self.texts:
            id, text = self.pick.choice(sorted(self.texts)), self.new_text()
            await self.engine.update_memory(id, content=text)
            self.texts[id] = text

    async def agent_forgets(self) -> None:
        if self.texts:
            id = self.pick.choice(sorted(self.texts))
            await self.engine.forget(id)
            self.gone.add(self.texts.pop(id))
            shown = self.folder.everything()
            assert not [text for text in self.gone if text in shown]

    async def person_opens(self) -> None:
        self.opened = self.folder.memory

    async def round(self) -> None:
        await self.engine.mirror.sync()

    async def person_saves(self) -> None:
        """Change a line, remove another and add one, in the file as it was opened."""
        await self.round()  # what another program wrote before is taken in
        lines = self.opened.split("\n")
        items = [line for line in lines if line.startswith("- ")]
        if len(items) > 3:
            changed, removed = self.pick.sample(items, 2)
            self._removed(removed)
            lines.remove(removed)
            lines[lines.index(changed)] = self._changed(changed)
        added = self.new_text()
        self.texts[f"added: {added}"] = added
        self.folder.write("\n".join([*lines, f"- {added}", ""]))
        await self.round()
        await self._learn_ids()
        self.opened = self.folder.memory

    def _removed(self, line: str) -> None:
        """Forgotten only if the memory still says what the person saw."""
        for id, text in list(self.texts.items()):
            if line.startswith(f"- {text} <!-- {id[:8]} "):
                self.gone.add(self.texts.pop(id))

    def _changed(self, line: str) -> str:
        text = self.new_text()
        handle = line.split("<!-- ")[1].split(" ")[0]
        known = next((id for id in self.texts if id.startswith(handle)), f"added: {text}")
        self.texts[known] = text
        return f"- {text} <!--{line.split(' <!--')[1]}"

    async def _learn_ids(self) -> None:
        listed = await self.engine.list_memories(limit=1000)
        ids = {memory.content: memory.id for memory in listed.memories}
        assert sorted(self.texts.values()) == sorted(ids)
        self.texts = {ids[text]: text for text in self.texts.values()}

    async def check(self) -> None:
        await self.round()
        await self._learn_ids()
        assert sorted(self.folder.items) == sorted(self.texts.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_a_person_and_agents_in_any_order(
    open_mirrored: Open, folder: Folder, seed: int
) -> None:
    async with open_mirrored() as engine:
        world = World(engine, folder, random.Random(seed))
        actions = [
            *(world.agent_stores,) * 3,
            world.agent_updates,
            world.agent_forgets,
            *(world.person_saves,) * 2,
            world.person_opens,
            world.round,
        ]
        for _ in range(STEPS):
            await world.pick.choice(actions)()
        await world.check()
        assert world.gone
    async with open_mirrored() as engine:
        world.engine = engine
        await world.check()
        assert engine.mirror.held() == []
