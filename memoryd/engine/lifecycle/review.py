"""Review: a person says whether a memory is right, or somebody that it should be looked at."""

from __future__ import annotations

from typing import Any

from memoryd.engine import checks
from memoryd.engine.lifecycle.decay import confirmed
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.secrecy import without_secrets
from memoryd.engine.updates import Change, Updates
from memoryd.errors import InvalidInput, NotFound
from memoryd.fields import MAX_TEXT, NEEDS_REVIEW, REVIEW_REASON, REVIEW_USES
from memoryd.model import Memory, Reviewed

CONFIRM, CORRECT, REJECT, FLAG = ACTIONS = ("confirm", "correct", "reject", "flag")


class Review:
    """The operation `review`."""

    def __init__(self, parts: Parts, memories: Memories, updates: Updates, uses: Uses) -> None:
        self._parts = parts
        self._memories = memories
        self._updates = updates
        self._uses = uses

    async def review(
        self,
        memory_id: str,
        action: str = CONFIRM,
        content: str | None = None,
        reason: str | None = None,
    ) -> Reviewed:
        """Judge a memory. `confirm`: it is right; `correct`: `content` is right instead; `reject`:
        it is wrong, and forgotten; `flag`: it needs a review, and `reason` says why. Raises
        NotFound and InvalidInput."""
        _check(action, content, reason)
        found = await self._memories.existing(memory_id)
        if action == REJECT:
            return await self._reject(found)
        fields: dict[str, Any] = {}
        if action == FLAG:
            fields["metadata"] = self._flagged(found, reason)
        else:
            fields["metadata"] = confirmed(found, self._parts.clock())
        if action == CORRECT:
            fields["content"] = checks.content(content, self._parts.memory.max_content_bytes)
        safe, warnings = await without_secrets(fields, self._parts.memory)
        change = Change(metadata=safe.pop("metadata"), fields=safe)
        # Only a new text is a change: to say that it is right makes a memory no newer.
        done = await self._updates.apply(found, change, stamp=action == CORRECT)
        return Reviewed(done.memory.id, action, done.memory, warnings)

    def _flagged(self, memory: Memory, reason: str | None) -> dict[str, Any]:
        uses = self._uses.total(memory)
        return {NEEDS_REVIEW: True, REVIEW_REASON: reason, REVIEW_USES: uses}

    async def _reject(self, memory: Memory) -> Reviewed:
        if not await self._memories.forget(memory.id):
            raise NotFound(f"There is no memory {memory.id!r}.")
        return Reviewed(memory.id, REJECT, None)


def _check(action: object, content: object, reason: object) -> None:
    """Raise InvalidInput for an action that there is not, or that lacks what it needs."""
    if action not in ACTIONS:
        raise InvalidInput(
            f"There is no action {str(action)[:50]!r}.",
            code="action_unknown",
            hint=f"Use {', '.join(ACTIONS)}.",
        )
    if (content is not None) != (action == CORRECT):
        missing = content is None
        raise InvalidInput(
            "To correct a memory, its new content is needed."
            if missing
            else f"The action {action} takes no content.",
            code="content_missing" if missing else "content_unused",
            hint="Give content with correct, and only with it.",
        )
    if reason is None and action != FLAG:
        return
    if not isinstance(reason, str) or not reason.strip() or len(reason) > MAX_TEXT:
        raise InvalidInput(
            f"A reason must be a text of at most {MAX_TEXT} characters.",
            code="reason_invalid",
            hint="Say in a sentence why the memory should be reviewed.",
        )
