"""Docs that cannot drift."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts.docs import PAGES

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", PAGES)
def test_reference_pages_are_what_the_code_says(page: str) -> None:
    assert (ROOT / page).read_text() == PAGES[page](), "Run: .venv/bin/python -m scripts.docs"


def test_the_text_of_each_setting_is_whole_sentences() -> None:
    """None begins in the middle of what its comment says, or breaks off."""
    from memoryd.settings import keys

    page = (ROOT / "docs" / "settings.md").read_text()
    found = dict(re.findall(r"^## ([\w.]+)\n\n(.+?)\n\nDefault", page, re.M | re.S))
    assert list(found) == keys()
    wrong = {key: text for key, text in found.items() if not re.match(r"[A-Z].*\.\Z", text, re.S)}
    assert wrong == {}
    exact = found["search.exact_limit"]
    assert exact.startswith("Passages whose vectors are held in RAM and compared exactly")


def test_every_dependency_is_justified() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(item for extra in extras for item in extra)]
    text = (ROOT / "docs" / "architecture.md").read_text()
    names = {re.split(r"[\s><=;\[]", item)[0] for item in wanted}
    assert [name for name in sorted(names) if f"| `{name}` |" not in text] == []


def test_links_in_the_docs_lead_somewhere() -> None:
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", file.read_text()):
            assert (file.parent / target).exists(), f"{file.name}: {target}"


def test_versions_agree() -> None:
    from memoryd import __version__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_tool_has_a_heading_and_every_argument_is_named() -> None:
    from memoryd.doors.schemas import TOOLS

    text = (ROOT / "docs" / "tools.md").read_text()
    sections = dict(re.findall(r"## (\w+)\n(.*?)(?=\n## |\Z)", text, re.S))
    for tool in TOOLS:
        for argument in tool.input_schema["properties"]:
            assert f"`{argument}`" in sections[tool.name], f"{tool.name}: {argument}"


def test_every_test_that_a_page_names_exists() -> None:
    """A proof that was renamed is none."""
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", file.read_text()):
            assert f"def {name}(" in (ROOT / path).read_text(), f"{file.name}: {path}::{name}"


def test_every_promise_of_the_security_page_has_a_proof() -> None:
    """Each row of its tables names a test; what has none is under "Not protected"."""
    text = (ROOT / "docs" / "security.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and " proof |" not in line]
    assert len(rows) > 50
    assert [row for row in rows if not re.search(r"\| `tests/[\w/]+\.py::\w+`.* \|$", row)] == []
