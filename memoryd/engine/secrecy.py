"""Secrets in memories to be stored: masked, refused or allowed, as `memory.secrets` says."""

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

SHORT = 1_000  # characters up to which a scan is faster than the switch to a thread
HINT = "Leave the secret out, or name the place where it is kept."


def secret_fields(memory: Memory) -> dict[str, Any]:
    """The fields of a memory that contain text from a caller."""
    return {key: getattr(memory, key) for key in ("content", "metadata", "name", "session_id")}


async def without_secrets(
    fields: Mapping[str, Any], settings: MemorySettings
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`masked_fields`, on a thread for long texts."""
    if fields.get("metadata") or len(fields.get("content") or "") > SHORT:
        return await in_thread(masked_fields, fields, settings)
    return masked_fields(fields, settings)


def masked_fields(
    fields: Mapping[str, Any], settings: MemorySettings
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of a memory with secrets masked, and warnings that say what was masked.

    Raises InvalidInput where secrets are refused, and where a marker makes a field too long.
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


def masked_text(text: str, settings: MemorySettings) -> str:
    """A text that memoryd wrote from memories, with secrets masked; where they are refused too,
    because nobody can correct it."""
    return text if settings.secrets == "allow" else mask(text).text


def _check_session(session_id: str | None) -> None:
    """Refuse, do not mask: two masked session ids could be equal, and share their messages."""
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
            f"{exc.message} (Counted with the markers that replace secrets.)",
            code=exc.code,
            hint=f"{HINT} {exc.hint}".strip(),
        ) from exc
