"""What the rules keep of what people say: precision and recall, by set and language.

Each line of a set is a message and the parts of it that are worth keeping (none, for about half of
them). A kept statement is right if it is one of these parts or has one in it.

- `own`: the rules were written with it.
- `held_out`: written before the rules. At the first measurement 95 of 96 kept ones were right,
  of 100 to keep (precision 0.990, recall 0.950).
- `third`: written after the first rules, to break them. At the first measurement 45 of 47 were
  right, of 64 to keep (precision 0.957, recall 0.703).
- `fourth`: written after the rules were mended. First measurement: 34 of 35 right, of 47 to keep
  (precision 0.971, recall 0.723).
- `fifth`: the same once more. First measurement: 46 of 46 right, of 51 to keep (precision 1.000,
  recall 0.902).

After its first measurement each set was read, and its kinds of errors were mended in general form.
So only a first measurement says what to expect of unseen text.

Run: .venv/bin/python -m scripts.bench.statements [--errors] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.engine.sessions.statements import statements

SETS = Path(__file__).parent.parent.parent / "tests" / "data" / "statements"
MIN_PRECISION = 0.95


@dataclass
class Score:
    """Statements that were kept rightly, kept wrongly, and missed."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        self.right += other.right
        self.wrong += other.wrong
        self.missed += other.missed

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + len(self.wrong))

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + len(self.missed))


def score(text: str, keep: list[str]) -> Score:
    """The rules on one message, of which these parts are worth keeping."""
    found, missed = Score(), list(keep)
    for statement in statements(text):
        said = statement.text.partition(": ")[2].rstrip(".").casefold()
        hits = [part for part in keep if part.casefold() in said or said in part.casefold()]
        if hits:
            found.right += 1
            missed = [part for part in missed if part not in hits]
        else:
            found.wrong.append(statement.text)
    found.missed = missed
    return found


def measured(file: Path) -> dict[str, Score]:
    """The score of a set, by language and for all of them."""
    scores: dict[str, Score] = {}
    for language, text, keep in _messages(file):
        for key in (language, "all"):
            scores.setdefault(key, Score()).add(score(text, keep))
    return scores


def _messages(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield row["language"], row["text"], row["keep"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", action="store_true", help="show what is kept wrongly or missed")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sets = {file.stem: measured(file) for file in sorted(SETS.glob("*.jsonl"))}
    if given.json:
        figures = {
            name: {key: [one.precision, one.recall] for key, one in scores.items()}
            for name, scores in sets.items()
        }
        print(json.dumps(figures, indent=1))
    else:
        _show(sets, errors=given.errors)
    if any(scores["all"].precision < MIN_PRECISION for scores in sets.values()):
        sys.exit(f"The precision of a set is below {MIN_PRECISION}.")


def _show(sets: dict[str, dict[str, Score]], *, errors: bool) -> None:
    print("| set | language | to keep | kept | precision | recall |\n|---|---|---|---|---|---|")
    for name, scores in sets.items():
        for language, one in scores.items():
            kept, to_keep = one.right + len(one.wrong), one.right + len(one.missed)
            figures = f"{one.precision:.3f} | {one.recall:.3f}"
            print(f"| {name} | {language} | {to_keep} | {kept} | {figures} |")
    if errors:
        for name, scores in sets.items():
            for what in ("wrong", "missed"):
                for text in getattr(scores["all"], what):
                    print(f"{name}, {what}: {text}")


if __name__ == "__main__":
    main()
