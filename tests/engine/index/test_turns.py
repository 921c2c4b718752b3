"""The order of messages: neighbours are right after any change, speakers are known by name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.index.columns import Columns
from memoryd.engine.index.growing_array import NONE
from memoryd.engine.index.speakers import Speakers
from memoryd.engine.index.terms import terms
from memoryd.engine.index.turns import Turns
from memoryd.model import Memory, MemoryType, who


def said(id: str, session: str | None, at: float, type: str = "conversation") -> Memory:
    return Memory(id=id, type=MemoryType(type), content="x", created_at=at, session_id=session)


class Said:
    """Messages in slots, with rows of their own."""

    def __init__(self, rows: int) -> None:
        self.live: dict[int, Memory] = {}
        self.columns, self.rows = Columns(), rows
        self.turns = Turns(self.columns, lambda slot: self.live[slot].id, lambda slot: None)

    def put(self, slot: int, memory: Memory) -> None:
        self.live[slot] = memory
        first = self.rows * slot
        self.columns.set(slot, memory, range(first, first + self.rows), 1)
        self.turns.put(slot)

    def remove(self, slot: int) -> None:
        self.turns.remove(slot)
        self.columns.clear(slot, self.live.pop(slot))

    def restored(self, slots: int) -> Turns:
        """What a start makes of the columns."""
        ids = [self.live[slot].id if slot in self.live else "" for slot in range(slots)]
        turns = Turns(self.columns, ids.__getitem__, lambda slot: None)
        turns.restore(self.rows * slots, ids)
        return turns


STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["s", "t", None]), st.integers(0, 4)), max_size=40
)


@given(STEPS)
def test_neighbours_are_those_said_before_and_after(
    steps: list[tuple[int, str | None, int]],
) -> None:
    messages = Said(rows=2)
    turns, live = messages.turns, messages.live
    for slot, session, at in steps:
        if slot in live:
            messages.remove(slot)
        else:
            messages.put(slot, said(f"m{slot}", session, float(at)))
    again = messages.restored(10)
    before, after = (side.tolist() for side in turns.of_slots(10))
    row_before, row_after = (side.tolist() for side in turns.of_rows(20))
    assert [side.tolist() for side in again.of_slots(10)] == [before, after]
    assert [side.tolist() for side in again.of_rows(20)] == [row_before, row_after]
    for session in ("s", "t"):
        order = sorted(
            (m.created_at, m.id, slot) for slot, m in live.items() if m.session_id == session
        )
        slots = [slot for *_, slot in order]
        for left, slot, right in zip([NONE, *slots], slots, [*slots[1:], NONE], strict=False):
            assert (before[slot], after[slot]) == (left, right)
            assert row_before[2 * slot] == (NONE if left == NONE else 2 * left + 1)
            assert row_after[2 * slot + 1] == (NONE if right == NONE else 2 * right)
    linked = {slot for slot, memory in live.items() if memory.session_id}
    assert all(before[n] == after[n] == NONE for n in range(10) if n not in linked)


def test_only_what_was_said_in_a_session_has_neighbours() -> None:
    messages = Said(rows=1)
    messages.put(0, said("a", "s", 1.0))
    messages.put(1, said("b", "s", 2.0, "fact"))
    messages.put(2, said("c", "s", 3.0))
    before, after = messages.turns.of_slots(3)
    assert (before.tolist(), after.tolist()) == ([-1, -1, 0], [2, -1, -1])


def test_a_speaker_is_meant_by_any_part_of_the_name() -> None:
    speakers = Speakers()
    for slot, name in enumerate(["Anna Berg", "Tom", "user", "assistant", "", "Anna Berg"]):
        speakers.put(slot, name)
    codes = speakers.codes(6).tolist()
    assert speakers.meant(terms("What did Anna say?")) == [codes[0]]
    assert speakers.meant(terms("berg")) == [codes[5]]
    assert speakers.meant(terms("where is my key")) == [codes[2]]
    assert speakers.meant(terms("what did you suggest")) == [codes[3]]
    assert speakers.meant(terms("what did you suggest for my garden")) == [codes[3]]
    assert speakers.meant(terms("can you tell me what I said")) == [codes[2]]
    assert speakers.meant(terms("the weather")) == []
    speakers.remove(0)
    assert speakers.meant(terms("anna")) == [codes[5]]
    speakers.remove(5)
    assert speakers.meant(terms("anna")) == []


def test_who_spoke_is_the_speaker_else_the_role() -> None:
    plain = said("a", "s", 1.0)
    assert who(plain) == ""
    for metadata, name in (
        ({"role": "user", "speaker": "Anna"}, "Anna"),
        ({"role": "user"}, "user"),
        ({"speaker": 7, "role": " "}, ""),
    ):
        memory = Memory(**{**_fields(plain), "metadata": metadata})  # type: ignore[arg-type]
        assert who(memory) == name


def _fields(memory: Memory) -> dict[str, object]:
    return {"id": memory.id, "type": memory.type, "content": "x", "created_at": 1.0}
