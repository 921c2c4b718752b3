"""What becomes of secrets in what is to be remembered: masked, refused or allowed, as set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.scrub import mask, mask_metadata


def without_secrets(
    fields: Mapping[str, Any], policy: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of a memory as they may be stored, and warnings that say what was masked.

    Raises InvalidInput where secrets are refused. The session is left: it is an address.
    """
    kept = dict(fields)
    kinds: list[str] = []
    for key in ("content", "name"):
        if policy != "allow" and kept.get(key):
            found = mask(kept[key])
            kept[key] = found.text
            kinds += found.kinds
    if policy != "allow" and kept.get("metadata"):
        kept["metadata"], more = mask_metadata(kept["metadata"])
        kinds += more
    if not kinds:
        return kept, ()
    what = ", ".join(dict.fromkeys(kinds))
    if policy == "refuse":
        raise InvalidInput(
            f"This looks like a secret: {what}.",
            code="secret_refused",
            hint="Leave the secret out, or say where it is kept.",
        )
    return kept, (f"What looked like a secret was removed before storing: {what}.",)
