"""The well-known metadata keys: their names, who may write them, and what they may hold.

They are plain keys of `Memory.metadata`, so that filters, lists and exports need nothing further to
know them. Callers write most of them, and a wrong value is refused. Some are written by memoryd
only: refused from callers, accepted from an import after a check. Readers accept anything, because
an import may bring a value that a caller could not have stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.model import CONFIDENCE, CONTEXT_NAME, FOREIGN_ID, Memory, MemoryType, confidence

KIND, SOURCE, TAGS, CATEGORY = "kind", "source", "tags", "category"
FILES, MODULES = "related_files", "related_modules"
COMMIT, SCOPE, CITATION, PROJECT = "commit_sha", "scope", "citation", "project"
OWNER, AUDIENCE = "owner", "audience"  # see `audience`
STEPS, TRIED, WHY_FAILED, USED_INSTEAD = "steps", "tried", "why_failed", "used_instead"
ESTIMATE, ACTUAL, RATIO = "estimate", "actual", "ratio"
SUPERSEDES, SUPERSEDED_BY, DERIVED_FROM = "supersedes", "superseded_by", "derived_from"
RELATIONS = ("required_with", "conflicts_with", "validates", SUPERSEDES, DERIVED_FROM)
USES, LAST_USED_AT, CONFIRMED_AT = "uses", "last_used_at", "confirmed_at"
NEEDS_REVIEW, REVIEW_REASON, USER_VERIFIED = "needs_review", "review_reason", "user_verified"
REVIEW_USES, STALE_FILES = "review_uses", "stale_files"
DEPRECATED_AT = "deprecated_at"
ALIASES, SEQ = "aliases", "seq"  # of a note
SESSION_RECORD = "session_record"  # what is known of a session; see `engine.sessions.records`
FROM_SESSION, TOPIC = "from_session", "topic"  # of a fact or archive that a session left
SUMMARY_BY, ARCHIVED = "summary_by", "archived"  # of an archive
DIGEST_OF = "digest_of"  # of a digest: how many facts it was made of
WORKING_MEMORY = "working_memory"  # the kind of a working memory
TOOL, TOOLS_USED = "tool", "tools_used"  # of a message
NOTE, ARCHIVE = "note", "archive"
NOTE_KINDS = (NOTE, ARCHIVE)
NAME = "name"  # a field of the memory; it counts as a word and is read like these

# Known kinds: days after which half of the confidence is left; None: it does not decay.
HALF_LIVES: dict[str, float | None] = {
    "work_state": 7,
    "e2e_observation": 30,
    "error_pattern": 60,
    "gotcha": 60,
    "module_insight": 90,
    "dead_end": 90,
    "causal_dependency": 120,
    "workflow_recipe": 120,
    "task_calibration": 180,
} | dict.fromkeys(
    "decision preference pattern requirement prefetch_pattern work_unit_outcome context_cost "
    "note archive".split()
)
TRUST = {
    "user_taught": 1.4,
    "agent_explicit": 1.2,
    "qa_auto": 1.1,
    "mcp_auto": 1.0,
    "commit_auto": 1.0,
    "observer_inferred": 0.85,
    "import": 1.0,
}
# Sources that are no person's or agent's choice: decayed memories of theirs may be deleted.
MACHINE_SOURCES = frozenset({"qa_auto", "mcp_auto", "commit_auto", "observer_inferred"})
AUDIENCES = PRIVATE, IN_PROJECT, TEAM = "private", "project", "team"  # smallest first
SCOPES = ("global", "module", "work_unit", "session")
DEFAULT_CONFIDENCE = 0.8
MAX_CITATION = 40
MAX_KIND = 50
MAX_ITEMS = 100  # of a list
MAX_ALIAS = 200  # characters, as of a name
MAX_TEXT = 500  # characters of a text, and of each text of a list

# What counts as words of a memory, beside its text.
WORDS = (
    *(NAME, KIND, TAGS, CATEGORY, FILES, MODULES),
    *(STEPS, TRIED, WHY_FAILED, USED_INSTEAD),
)
_KIND = re.compile(f"[a-z0-9_]{{1,{MAX_KIND}}}")
_COMMIT = re.compile("[0-9a-fA-F]{7,64}")

Rule = tuple[Callable[[Any], bool], str]  # whether a value is right, and what is


def _is_text(value: Any, most: int = MAX_TEXT) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= most


def _is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) <= MAX_ITEMS and all(map(holds, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and FOREIGN_ID.fullmatch(value) is not None


_TEXT: Rule = (_is_text, f"a text of at most {MAX_TEXT} characters")
_LIST: Rule = (
    lambda value: _is_list(value, _is_text),
    f"a list of at most {MAX_ITEMS} texts of at most {MAX_TEXT} characters",
)
_IDS: Rule = (lambda value: _is_list(value, _is_id), f"a list of at most {MAX_ITEMS} memory ids")
_AMOUNT: Rule = (lambda value: _is_number(value) and 0 < value < 1e12, "a number above 0")
_MOMENT: Rule = (lambda value: _is_number(value) and abs(value) < 1e12, "epoch seconds")
_TRUE: Rule = (lambda value: value is True, "true")
_COUNT: Rule = (lambda value: type(value) is int and 0 <= value < 2**53, "a whole number")
_STATES: Rule = (
    lambda value: (
        isinstance(value, dict)
        and len(value) <= MAX_ITEMS
        and all(at is None or _is_number(at) for at in value.values())
    ),
    "a mapping of files to epoch seconds or null",
)
_FACTS: Rule = (
    lambda value: isinstance(value, dict) and len(value) <= MAX_ITEMS,
    f"a mapping of at most {MAX_ITEMS} keys",
)

RULES: dict[str, Rule] = {
    KIND: (
        lambda value: isinstance(value, str) and _KIND.fullmatch(value) is not None,
        f"at most {MAX_KIND} lower-case letters, digits and underscores",
    ),
    SOURCE: (lambda value: _is_text(value, 50), "a text of at most 50 characters"),
    CONFIDENCE: (lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1"),
    TAGS: _LIST,
    CATEGORY: _TEXT,
    FILES: _LIST,
    MODULES: _LIST,
    COMMIT: (
        lambda value: isinstance(value, str) and _COMMIT.fullmatch(value) is not None,
        "7 to 64 hexadecimal digits",
    ),
    SCOPE: (lambda value: value in SCOPES, f"one of {', '.join(SCOPES)}"),
    CITATION: (
        lambda value: _is_text(value, MAX_CITATION),
        f"a text of at most {MAX_CITATION} characters",
    ),
    PROJECT: _TEXT,
    AUDIENCE: (lambda value: value in AUDIENCES, f"one of {', '.join(AUDIENCES)}"),
    **dict.fromkeys(RELATIONS, _IDS),
}
# Of these kinds only: elsewhere such keys mean what the caller likes.
KIND_RULES: dict[str, dict[str, Rule]] = {
    "workflow_recipe": {STEPS: _LIST},
    "dead_end": dict.fromkeys((TRIED, WHY_FAILED, USED_INSTEAD), _TEXT),
    "task_calibration": dict.fromkeys((ESTIMATE, ACTUAL, RATIO), _AMOUNT),
}
SYSTEM_RULES: dict[str, Rule] = {
    USES: _COUNT,
    LAST_USED_AT: _MOMENT,
    CONFIRMED_AT: _MOMENT,
    NEEDS_REVIEW: _TRUE,
    REVIEW_REASON: _TEXT,
    REVIEW_USES: _COUNT,
    USER_VERIFIED: _TRUE,
    SUPERSEDED_BY: _IDS,
    DEPRECATED_AT: _MOMENT,
    ALIASES: (
        lambda value: _is_list(value, lambda item: _is_text(item, MAX_ALIAS)),
        f"a list of at most {MAX_ITEMS} names",
    ),
    SEQ: (lambda value: type(value) is int and 0 < value < 2**53, "a whole number above 0"),
    STALE_FILES: _STATES,
    SESSION_RECORD: _FACTS,
    FROM_SESSION: _TEXT,
    SUMMARY_BY: _TEXT,
    ARCHIVED: _FACTS,
    DIGEST_OF: _COUNT,
}
SYSTEM_KEYS = tuple(SYSTEM_RULES)


def check_fields(given: Mapping[str, Any], kind: object = None) -> None:
    """Raise InvalidInput if a well-known key that a caller gave has a wrong value. `kind`: of the
    memory, if it is not among `given`; null counts as not given."""
    kind = given.get(KIND) or kind
    rules = RULES | (KIND_RULES.get(kind, {}) if isinstance(kind, str) else {})
    _check(given, rules)


def check_system_fields(given: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a key that only memoryd writes has a value that it never writes."""
    _check(given, SYSTEM_RULES)


def _check(given: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    for key, (holds, wanted) in rules.items():
        value = given.get(key)
        if value is not None and not holds(value):
            raise InvalidInput(
                f"The metadata field {key!r} must be {wanted}, not {_shown(value)}.",
                code="field_invalid",
                hint="Correct it, or use another key for what you mean.",
            )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return repr(value)[:60] if isinstance(value, str | int | float) else type(value).__name__


def completed(memory: Memory, before: Memory | None = None) -> dict[str, Any]:
    """The metadata of a memory with what is made if it was not given: a citation for a memory with
    a kind, the ratio of a calibration. One that was made from `before` is made again."""
    made = dict(memory.metadata)
    kind = kind_of(memory)
    if before is not None and before.content != memory.content:
        if made.get(CITATION) == citation_of(before.content):
            del made[CITATION]
    if kind is not None and made.get(CITATION) is None:
        made[CITATION] = citation_of(memory.content)
    estimate, actual = made.get(ESTIMATE), made.get(ACTUAL)
    if kind == "task_calibration" and estimate and actual and made.get(RATIO) is None:
        made[RATIO] = round(actual / estimate, 4)
    return made


def citation_of(content: str) -> str:
    """The beginning of a text, cut after a word, to cite it by."""
    line = " ".join(content[: 10 * MAX_CITATION].split())
    if len(line) <= MAX_CITATION:
        return line
    cut = line[: MAX_CITATION - 1]
    if not line[MAX_CITATION - 1].isspace() and " " in cut:
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip(" ,;:.-") + "\u2026"


def texts_of(memory: Memory, key: str) -> list[str]:
    """The texts of a field; empty if it has none, or holds something else."""
    value = memory.name if key == NAME else memory.metadata.get(key)
    if key == NAME and isinstance(value, str):
        value = value.removeprefix(CONTEXT_NAME)
    items: Iterable[Any] = value if isinstance(value, list) else (value,)
    return [item for item in items if isinstance(item, str) and item.strip()]


def words_of(memory: Memory) -> str:
    """The values of all fields that count as words of the memory."""
    if memory.name is None and not memory.metadata:
        return ""
    return "\n".join(text for key in WORDS for text in texts_of(memory, key))


def _text_of(memory: Memory, key: str) -> str | None:
    value = memory.metadata.get(key)
    return value if isinstance(value, str) and value else None


def kind_of(memory: Memory) -> str | None:
    return _text_of(memory, KIND)


def source_of(memory: Memory) -> str | None:
    return _text_of(memory, SOURCE)


def project_of(memory: Memory) -> str | None:
    """The project that it belongs to; None: shared memory of the machine."""
    return _text_of(memory, PROJECT)


def tags_of(memory: Memory) -> list[str]:
    return texts_of(memory, TAGS)


def confidence_of(memory: Memory) -> float:
    """How certain it is, 0..1."""
    return confidence(memory, DEFAULT_CONFIDENCE)


def uses_of(memory: Memory) -> int:
    """How often it reached an agent, as last written."""
    count = memory.metadata.get(USES)
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def moment_of(memory: Memory, key: str) -> float | None:
    """The epoch seconds of a field; None if it has none, or holds something else."""
    value: Any = memory.metadata.get(key)
    return float(value) if _is_number(value) else None


def half_life_of(memory: Memory) -> float | None:
    """Days after which half of its confidence is left; None: it does not decay."""
    return HALF_LIVES.get(kind_of(memory) or "")


def trust_of(memory: Memory, factors: Mapping[str, float]) -> float:
    """The trust factor of its source; 1.0 for a source without one."""
    return factors.get(source_of(memory) or "", 1.0)


def ids_of(memory: Memory, key: str) -> list[str]:
    """The ids in one of its relations; empty if there are none."""
    value = memory.metadata.get(key)
    return [id for id in value if _is_id(id)] if isinstance(value, list) else []


def related_ids(memory: Memory) -> set[str]:
    """Every id in one of its relations, `superseded_by` included."""
    if not memory.metadata:
        return set()
    return {id for key in (*RELATIONS, SUPERSEDED_BY) for id in ids_of(memory, key)}


def is_note(memory: Memory) -> bool:
    """Whether it is a note: a fact with a name and a number, of kind note or archive, that does not
    expire."""
    lasts = memory.type is MemoryType.FACT and memory.expires_at is None
    return (
        lasts and memory.name is not None and kind_of(memory) in NOTE_KINDS and seq_of(memory) > 0
    )


def is_session_record(memory: Memory) -> bool:
    """Whether it holds what is known of a session."""
    return SESSION_RECORD in memory.metadata


def is_digest(memory: Memory) -> bool:
    """Whether it is a shorter form of facts; see `engine.sessions.digest`."""
    return DIGEST_OF in memory.metadata


def is_hidden(memory: Memory) -> bool:
    """Whether no search and no list shows it unless a filter names its key."""
    return is_session_record(memory) or is_digest(memory)


def is_archive(memory: Memory) -> bool:
    """Whether it is the summary of a part of a session."""
    return is_note(memory) and kind_of(memory) == ARCHIVE


def seq_of(memory: Memory) -> int:
    """The number of a note: higher than that of every older one. 0 if it has none."""
    value = memory.metadata.get(SEQ)
    return value if type(value) is int else 0


def aliases_of(memory: Memory) -> list[str]:
    return texts_of(memory, ALIASES)


def handles_of(memory: Memory) -> list[str]:
    """Its name, and of a note its aliases too."""
    if memory.name is None:
        return []
    return [memory.name, *aliases_of(memory)] if is_note(memory) else [memory.name]
