"""Every text of the page is in every language, and every text that the page asks for exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from memoryd.doors.page.assets import STATIC

TABLES = {path.stem: json.loads(path.read_text()) for path in (STATIC / "strings").glob("*.json")}
PLURALS = {"zero", "one", "two", "few", "many", "other"}
ASKED = re.compile(r"""\bt\(\s*(?:"([\w.-]+)"|`([\w.-]*)\$\{)""")


def texts(table: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Each key with its text, or with its forms for numbers."""
    for name, value in table.items():
        if isinstance(value, str):
            yield f"{path}{name}", [value]
        elif value.keys() <= PLURALS:
            yield f"{path}{name}", list(value.values())
        else:
            yield from texts(value, f"{path}{name}.")


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def test_there_are_english_and_french() -> None:
    assert {"en", "fr"} <= TABLES.keys()


@pytest.mark.parametrize("language", sorted(TABLES))
def test_a_language_has_every_text_and_no_other(language: str) -> None:
    english, other = dict(texts(TABLES["en"])), dict(texts(TABLES[language]))
    assert other.keys() == english.keys()
    for key, forms in other.items():
        assert all(form.strip() for form in forms), key
        used = set().union(*map(names_in, english[key]))
        assert set().union(*map(names_in, forms)) <= used, key


def test_every_text_that_is_asked_for_exists() -> None:
    known = dict(texts(TABLES["en"]))
    for path in sorted((STATIC / "js").rglob("*.js")):
        for whole, start in ASKED.findall(path.read_text()):
            if whole:
                assert whole in known, f"{path.name}: {whole}"
            elif start:
                assert any(key.startswith(start) for key in known), f"{path.name}: {start}"


def test_every_text_is_asked_for() -> None:
    """A text that nothing asks for is left over."""
    asked = [
        pair for path in (STATIC / "js").rglob("*.js") for pair in ASKED.findall(path.read_text())
    ]
    whole = {name for name, _ in asked if name}
    source = "".join(path.read_text() for path in (STATIC / "js").rglob("*.js"))
    starts = tuple(start for _, start in asked if start)
    left = [
        key
        for key, _ in texts(TABLES["en"])
        if key not in whole and not key.startswith(starts) and f'"{key}"' not in source
    ]
    # A whole key can be put together: `${name}.title`.
    assert [key for key in left if not key.endswith(".title")] == []
