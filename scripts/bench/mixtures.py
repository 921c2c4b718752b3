"""Mixed stores for the retrieval benchmark: what is asked for lies among texts of another kind.

A memory serves facts, preferences and chats from one store, and each kind would have words trusted
differently. So the facts of the tests are asked for among the memories of every pool and the turns
of every chat, small pools among large ones, and turns as facts, without their sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Data = dict[str, Any]
OTHERS = 2400  # memories of another kind that are put beside


def mixtures(facts: list[dict[str, str]], sets: Mapping[str, Data]) -> Iterator[tuple[str, Data]]:
    """A name and data in the form of the sets; data with memories and sessions is one store."""
    pools = {name: data for name, data in sets.items() if "memories" in data}
    chats = {name: data for name, data in sets.items() if "conversations" in data}
    asked = as_pool(facts)
    yield "facts", asked
    for name, pool in pools.items():
        yield f"facts among {name}", _beside(asked, pool)
    for name, chat in chats.items():
        yield f"facts among {name}", {**asked, "sessions": list(_sessions(chat))}
    for small, pool in pools.items():
        for large, other in pools.items():
            if len(pool["memories"]) < OTHERS < len(other["memories"]):
                yield f"{small} among {large}", _beside(pool, other)
    for name, chat in chats.items():
        yield f"{name}, turns as facts", {"conversations": [*map(_flat, chat["conversations"])]}


def as_pool(facts: list[dict[str, str]]) -> Data:
    """Each fact is its own id."""
    memories = [{"id": row["fact"], "text": row["fact"]} for row in facts]
    asked = [row for row in facts if "question" in row]
    questions = [{"question": row["question"], "evidence": [row["fact"]]} for row in asked]
    return {"memories": memories, "questions": questions}


def _beside(pool: Data, other: Data) -> Data:
    """The pool, and memories of the other from all of its length."""
    step = max(1, len(other["memories"]) // OTHERS)
    others = other["memories"][::step][:OTHERS]
    more = [{"id": f"other {n}", "text": memory["text"]} for n, memory in enumerate(others)]
    return {"memories": pool["memories"] + more, "questions": pool["questions"]}


def _sessions(chat: Data) -> Iterator[Data]:
    """All sessions of all conversations; ids are unique within a conversation alone."""
    for number, conversation in enumerate(chat["conversations"]):
        for session in conversation["sessions"]:
            turns = [turn | {"id": f"{number} {turn['id']}"} for turn in session["turns"]]
            yield session | {"id": f"{number} {session['id']}", "turns": turns}


def _flat(conversation: Data) -> Data:
    """A conversation as a pool."""
    turns = [turn for session in conversation["sessions"] for turn in session["turns"]]
    return {"memories": turns, "questions": conversation["questions"]}
