"""What the schemas of all toolsets are made of. An output schema lists every field of its answer,
because some clients drop fields that are not listed."""

from __future__ import annotations

from typing import Any

from mcp.types import Tool, ToolAnnotations

from memoryd.fields import AUDIENCES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 1}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}
TYPE: Schema = {"type": "string", "enum": ["fact", "conversation", "context"]}
WHEN: Schema = {"type": "string", "description": "ISO 8601"}
AUDIENCE: Schema = {"type": "string", "enum": list(AUDIENCES)}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
FILTER: Schema = {"type": "object", "description": "equality, or $gt $in $or as in Chroma"}
SESSION_ID: Schema = {"type": "string", "description": "default: the connection's"}

MEMORY: Schema = {
    "id": TEXT,
    "content": TEXT,
    "type": TEXT,
    "created_at": TEXT,
    "expires_at": MAYBE_TEXT,
    "metadata": OBJECT,
}
ANY: Schema = {}  # of fields that are listed by name only: their types would cost more tokens
# Only if the memory has them.
MAYBE: Schema = dict.fromkeys("name session_id pinned updated_at".split(), ANY)
HIT: Schema = dict.fromkeys("passage cut similar deprecated why".split(), ANY)
HINT: Schema = {"hint": TEXT}  # how to continue a session that was not named
MESSAGE: Schema = dict.fromkeys("id role content at order speaker source tool".split(), ANY)


def shape(properties: Schema, required: list[str] | None = None) -> Schema:
    """The schema of an object; `required` names the fields that must be present."""
    made = {"type": "object", "properties": properties}
    return made | ({"required": required} if required else {})


def many(properties: Schema) -> Schema:
    """The schema of a list of objects."""
    return {"type": "array", "items": shape(properties)}


def answer(always: Schema, also: Schema | None = None) -> Schema:
    """The schema of an answer: the fields that are always present, and the others."""
    return shape(always | (also or {}), list(always))


def tool(
    name: str,
    text: str,
    takes: Schema,
    gives: Schema,
    *,
    reads: bool = False,
    destroys: bool = False,
    repeats: bool = False,
    first: bool = False,
) -> Tool:
    """A tool with all four annotations. `repeats`: it is idempotent. `first`: in the model's prompt
    from the start, even if a client loads tools on demand."""
    hints = ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=repeats,
        open_world_hint=False,
    )
    return Tool(
        name=name,
        description=text,
        input_schema=takes,
        output_schema=gives,
        annotations=hints,
        _meta={"anthropic/alwaysLoad": True} if first else None,
    )
