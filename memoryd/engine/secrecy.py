"""What becomes of secrets in what is to be remembered: masked, refused or allowed, as set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.engine import checks
from memoryd.errors import InvalidInput
from memoryd.fair import in_thread
from memoryd.masking.mask import mask, mask_metadata
from memoryd.metadata import check_metadata
from memoryd.model import Memory
from memoryd.settings import MemorySettings

SHORT = 1_000  # characters that are searched for secrets faster than a thread is asked
HINT = "Leave the secret out, or say where it is kept."


def secret_fields(memory: Memory) -> dict[str, Any]:
    """The fields of a memory that a caller fills with text."""
    return {key: getattr(memory, key) for key in ("content", "metadata", "name", "session_id")}


async def without_secrets(
    fields: Mapping[str, Any], settings: MemorySettings
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """As `masked_fields`; what is long is read on another thread."""
    if fields.get("metadata") or len(fields.get("content") or "") > SHORT:
        return await in_thread(masked_fields, fields, settings)
    return masked_fields(fields, settings)


def masked_fields(
    fields: Mapping[str, Any], settings: MemorySettings
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of a memory as they may be stored, and warnings that say what was masked.

    Raises InvalidInput where secrets are refused, and where a marker in the place of a short
    secret makes a field longer than it may be.
    """
    if settings.secrets == "allow":
        return dict(fields), ()
    _check_session(fields.get("session_id"))
    kept = dict(fields)
    kinds: list[str] = []
    for key in ("content", "name"):
        if kept.get(key):
            found = mask(kept[key])
            kept[key] = found.text
            kinds += found.kinds
    if kept.get("metadata"):
        kept["metadata"], more = mask_metadata(kept["metadata"])
        kinds += more
    if not kinds:
        return kept, ()
    what = ", ".join(dict.fromkeys(kinds))
    if settings.secrets == "refuse":
        raise InvalidInput(f"This looks like a secret: {what}.", code="secret_refused", hint=HINT)
    _check_sizes(kept, settings.max_content_bytes)
    return kept, (f"What looked like a secret was removed before storing: {what}.",)


def _check_session(session_id: str | None) -> None:
    """Refused and not masked: two sessions would become one, and read each other's messages."""
    if session_id and (kinds := mask(session_id).kinds):
        raise InvalidInput(
            f"The session_id looks like a secret: {', '.join(kinds)}.",
            code="secret_refused",
            hint="Choose another session_id.",
        )


def _check_sizes(kept: Mapping[str, Any], max_bytes: int) -> None:
    try:
        if kept.get("content"):
            checks.content(kept["content"], max_bytes)
        checks.label(kept.get("name"), "name")
        check_metadata(kept.get("metadata"))
    except InvalidInput as exc:
        raise InvalidInput(
            f"{exc.message} (Counted with the markers in the place of secrets.)",
            code=exc.code,
            hint=f"{HINT} {exc.hint}".strip(),
        ) from exc
