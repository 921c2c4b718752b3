"""The named sets of MCP tools. A client sees those that it asks for, or the configured ones: every
tool that is listed costs room in the prompt of an agent. Standard library only, for the shim."""

from __future__ import annotations

from memoryd.errors import InvalidInput

TOOLSETS = ("core", "session", "manage", "notes")  # their tools are in `doors.schemas`
EVERY = "all"
DEFAULT = ("core",)
MAX_GIVEN = 1000  # characters of a text, names of a list


def parse_toolsets(value: object) -> tuple[str, ...]:
    """The toolsets in a text such as `core,manage`, or in a list; `all` means every one. Raises
    InvalidInput, which names the known ones."""
    if isinstance(value, str):
        value = [word.strip() for word in value[:MAX_GIVEN].split(",") if word.strip()]
    if not isinstance(value, list | tuple) or not value:
        raise _refused("No toolset is named.")
    for name in value[:MAX_GIVEN]:
        if not isinstance(name, str) or name not in (*TOOLSETS, EVERY):
            raise _refused(f"There is no toolset {str(name)[:50]!r}.")
    return tuple(name for name in TOOLSETS if name in value or EVERY in value)


def _refused(message: str) -> InvalidInput:
    hint = f"The toolsets are {', '.join(TOOLSETS)}; {EVERY} means every one."
    return InvalidInput(message, code="toolset_unknown", hint=hint)
