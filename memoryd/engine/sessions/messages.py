"""The messages of a session, in the order in which they were said."""

from __future__ import annotations

from memoryd import recall_text
from memoryd.engine.index.index import Index
from memoryd.engine.turn_keys import CLEARED, is_message, order_of
from memoryd.model import Memory, MemoryType, is_expired


def messages_of(index: Index, session_id: str, now: float, *, after: int = -1) -> list[Memory]:
    """The messages of a session that are alive and have an order above `after`, oldest first."""
    said = index.of_session(session_id, MemoryType.CONVERSATION)
    alive = (memory for memory in said if is_message(memory) and not is_expired(memory, now))
    return sorted((memory for memory in alive if order_of(memory) > after), key=order_of)


def since_cleared(messages: list[Memory]) -> list[Memory]:
    """The messages after the last one that was in a window when it was cleared."""
    cleared = [number for number, one in enumerate(messages) if one.metadata.get(CLEARED)]
    return messages[cleared[-1] + 1 :] if cleared else messages


def shown_text(message: Memory) -> str:
    """The text of a message as a prompt shows it: with its tool, or with where it came from."""
    return recall_text.shown_text({**message.metadata, "content": message.content})
