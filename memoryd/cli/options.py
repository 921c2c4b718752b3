"""Parsing the command line: wrong usage is a sentence that suggests the nearest known word.

argparse prints its usage and ends the process. Here wrong usage is an error like every other, so
that it looks like other errors at a prompt and is JSON with --json.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from memoryd.errors import InvalidInput
from memoryd.labels import normal_name

LIKENESS = 0.6  # from 0 to 1; a word that is less alike is not suggested
# Patterns of argparse's messages, and the sentences that replace them.
SENTENCES = (
    (r"the following arguments are required: (.+)", r"\1 is missing."),
    (r"argument (\S+): expected (?:one|at least one) argument", r"\1 needs a value."),
    (r"argument (\S+): ignored explicit argument (.+)", r"\1 takes no value, but has \2."),
    (r"ambiguous option: (\S+) could match (.+)", r"\1 could be any of \2."),
    (r"argument ([^:]+): (.+)", r"\1: \2."),
)
LOG_LEVELS = ("debug", "info", "warning", "error")  # of `log.level`, the least important first
FIELD_FLAGS = {"kind": "kind", "tag": "tags"}  # flags, and keys of `fields`
MIN_INTERVAL, MAX_INTERVAL = 0.1, 3600.0  # seconds
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


class UsageError(InvalidInput):
    """The arguments of `memoryd` cannot be parsed."""

    code = "usage"


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would end the process."""

    def __init__(self, **given: Any) -> None:
        # Raw: each example of a help is a line.
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter} | given)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if args is not None and self._subparsers is None:
            self._refuse_unknown_options(args)
        options, unread = super().parse_known_args(args, namespace)
        if unread:
            self._refuse(unread[0])
        return options, []

    def format_help(self) -> str:
        """The help, with examples. They are loaded here, as no other use of a verb needs them."""
        from memoryd.cli.verbs.examples import epilog

        self.epilog = epilog(self.prog) or self.epilog
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        for pattern, sentence in SENTENCES:
            if found := re.fullmatch(pattern, message, re.S):
                raise self._wrong(found.expand(sentence))
        raise self._wrong(f"{message[:1].upper()}{message[1:]}.")

    def _refuse(self, word: str) -> NoReturn:
        """Raise UsageError for an argument that this parser does not know."""
        if not word.startswith("-"):
            sentence = f"{word!r} is one word too many. A text of several words needs quotes."
            raise self._wrong(sentence)
        name = word.partition("=")[0]
        verbs = self.verbs().values()
        of_verbs = {known for verb in verbs for known in verb._option_names()}
        if name in of_verbs:
            raise self._wrong(f"{name} goes after the verb.")
        known = {*self._option_names(), *of_verbs}
        raise self._wrong(f"There is no option {name!r}.{meant(name, known)}")

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        """Runs first: a typo in an option would else be reported as a missing argument."""
        for word in words[: words.index("--") if "--" in words else None]:
            name = word.partition("=")[0]
            if not name.startswith("--") or " " in word:
                continue
            if not any(known.startswith(name) for known in self._option_names()):
                self._refuse(word)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        word = "action" if " " in self.prog else "verb"
        what = f"{word} {value!r}" if self._subparsers else f"{value!r} here"
        known = "" if self._subparsers else f" It is one of {', '.join(action.choices)}."
        raise self._wrong(f"There is no {what}.{meant(str(value), action.choices) or known}")

    def verbs(self) -> dict[str, Parser]:
        """The parser of each verb; empty if this is the parser of a verb."""
        found = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        return {name: verb for action in found for name, verb in action.choices.items()}

    def _option_names(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _wrong(self, sentence: str) -> UsageError:
        return UsageError(sentence, hint=f"Run: {self.prog} --help")


def meant(word: str, known: Iterable[str]) -> str:
    """` Did you mean search?`, or "" if no known word is similar."""
    closest = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=LIKENESS)
    return f" Did you mean {closest[0]}?" if closest else ""


def selection(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of a filter from the flags that were given."""
    given = {
        "memory_type": options.type,
        "session_id": options.session,
        "metadata": _metadata_filter(options),
        "since": options.since,
        "until": options.until,
        "older_than": getattr(options, "older_than", None),
    }
    return {key: value for key, value in given.items() if value is not None}


def _metadata_filter(options: argparse.Namespace) -> dict[str, Any] | None:
    """All conditions on metadata that were given; None if there are none."""
    parts: list[dict[str, Any]] = []
    if options.metadata is not None:
        parts.append(dict(options.metadata))
    if options.filter is not None:
        parts.append(options.filter)
    for flag, key in FIELD_FLAGS.items():
        if wanted := getattr(options, flag, None):
            parts.append({key: {"$in": wanted}})
    if (project := _project_filter(options)) is not None:
        parts.append(project)
    return {"$and": parts} if len(parts) > 1 else parts[0] if parts else None


def _project_filter(options: argparse.Namespace) -> dict[str, Any] | None:
    """The filter of --project or --shared. Raises UsageError if both are given."""
    if options.project is not None and options.shared:
        raise UsageError("--project and --shared exclude each other.")
    if options.shared:
        return {"project": {"$exists": False}}
    return None if options.project is None else {"project": normal_name(options.project)}


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ArgumentTypeError(f"{text[:100]!r} is not JSON ({exc})") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError(f"{text[:100]!r} is not a JSON object")
    return value


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None


def count(text: str) -> int:
    """A whole number that is not negative."""
    if (number := whole(text)) < 0:
        raise ArgumentTypeError(f"{text} is negative")
    return number


def number(text: str) -> float:
    """Any number."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None


def interval(text: str) -> float:
    """Seconds between two redraws."""
    if not MIN_INTERVAL <= (chosen := number(text)) <= MAX_INTERVAL:
        raise ArgumentTypeError(f"{text} is not from {MIN_INTERVAL:g} to {MAX_INTERVAL:g}")
    return chosen


def seconds(text: str) -> float:
    """A length of time such as `90s`, `30min`, `12h`, `7d` or `2w`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip().lower())
    if not found or found[2] not in UNITS:
        raise ArgumentTypeError(f"{text!r} is not a length of time such as 12h or 7d")
    return float(found[1]) * UNITS[found[2]]


def pair(text: str) -> tuple[str, object]:
    """KEY=VALUE; a value that is JSON is parsed."""
    key, separator, value = text.partition("=")
    if not separator:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
