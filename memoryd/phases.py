"""The phases of work, and the defaults of what each needs: weights and token shares by kind."""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.errors import InvalidInput

DEFINE, IMPLEMENT, VALIDATE = "define", "implement", "validate"
REFINE, EXPLORE, REFLECT = "refine", "explore", "reflect"
PHASES = (DEFINE, IMPLEMENT, VALIDATE, REFINE, EXPLORE, REFLECT)
OTHER = "other"  # in shares: all kinds that are not named, and memories without a kind

TOKENS: dict[str, int] = {
    DEFINE: 2500,
    IMPLEMENT: 3000,
    VALIDATE: 2500,
    REFINE: 2000,
    EXPLORE: 2000,
    REFLECT: 1500,
}
FACTORS: dict[str, dict[str, float]] = {
    DEFINE: {
        "workflow_recipe": 1.4,
        "dead_end": 1.2,
        "requirement": 1.2,
        "decision": 1.1,
        "task_calibration": 1.1,
        "gotcha": 0.8,
        "error_pattern": 0.8,
    },
    IMPLEMENT: {
        "gotcha": 1.4,
        "error_pattern": 1.3,
        "causal_dependency": 1.2,
        "dead_end": 1.2,
        "pattern": 1.1,
        "prefetch_pattern": 1.1,
    },
    VALIDATE: {
        "error_pattern": 1.4,
        "e2e_observation": 1.4,
        "requirement": 1.2,
        "work_unit_outcome": 1.1,
    },
    REFINE: {"error_pattern": 1.3, "gotcha": 1.2, "dead_end": 1.2},
    EXPLORE: {"module_insight": 1.4, "decision": 1.2, "pattern": 1.1},
    REFLECT: {"work_unit_outcome": 1.4, "task_calibration": 1.3, "dead_end": 1.1},
}
SHARES: dict[str, dict[str, float]] = {
    DEFINE: {
        "workflow_recipe": 30.0,
        "requirement": 20.0,
        "decision": 20.0,
        "dead_end": 15.0,
        "task_calibration": 10.0,
        OTHER: 5.0,
    },
    IMPLEMENT: {
        "gotcha": 30.0,
        "error_pattern": 25.0,
        "causal_dependency": 15.0,
        "pattern": 15.0,
        "dead_end": 10.0,
        OTHER: 5.0,
    },
    VALIDATE: {
        "error_pattern": 30.0,
        "requirement": 25.0,
        "e2e_observation": 25.0,
        "work_unit_outcome": 15.0,
        OTHER: 5.0,
    },
    REFINE: {"error_pattern": 35.0, "gotcha": 25.0, "dead_end": 20.0, "pattern": 15.0, OTHER: 5.0},
    EXPLORE: {
        "module_insight": 40.0,
        "decision": 25.0,
        "pattern": 20.0,
        "causal_dependency": 15.0,
    },
    REFLECT: {"work_unit_outcome": 40.0, "task_calibration": 35.0, "dead_end": 15.0, OTHER: 10.0},
}


def check_phase(value: object) -> str | None:
    """The phase that a caller gave; None if there is none. Raises InvalidInput."""
    if value is None or value == "":
        return None
    check_phases((value,))
    return str(value)


def check_phases(names: Iterable[object]) -> None:
    """Raise InvalidInput if one of these is no phase."""
    for name in names:
        if not isinstance(name, str) or name not in PHASES:
            raise InvalidInput(
                f"There is no phase {str(name)[:50]!r}.",
                code="phase_unknown",
                hint=f"Use {', '.join(PHASES)}, or leave it out.",
            )
