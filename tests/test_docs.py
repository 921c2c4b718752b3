"""Docs that cannot drift."""

from __future__ import annotations

import ast
import re
import tomllib
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.docs import PAGES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "memoryd"
PAGES_BY_HAND = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


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
    assert exact.startswith("Passages up to which a search finds exactly what comparing")


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


def test_every_module_that_a_page_names_exists() -> None:
    """Whole paths from the package or from the top, so that a reader finds them."""
    for file in PAGES_BY_HAND:
        for path in re.findall(r"`([\w./]+(?:\.py|/))`", file.read_text()):
            places = (PACKAGE / path, ROOT / path)
            assert any(place.exists() for place in places), f"{file.name}: {path}"


def test_the_tree_on_the_page_is_the_real_one() -> None:
    """Every package is there, each below its parent, and no other."""
    [tree] = re.findall(r"^memoryd/\n(.*?)^```", _architecture(), re.M | re.S)
    shown, above = set(), list[str]()
    for spaces, name in re.findall(r"^( +)(\w+)/", tree, re.M):
        above = [*above[: len(spaces) // 2 - 1], name]
        shown.add("/".join(above))
    real = {str(file.parent.relative_to(PACKAGE)) for file in PACKAGE.rglob("__init__.py")}
    assert shown - {"data"} == real - {"."}


def test_modules_with_one_importer_are_listed_with_their_reason() -> None:
    modules = {_name(file): file for file in PACKAGE.rglob("*.py") if file.stem != "__init__"}
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for file in PACKAGE.rglob("*.py"):
        for name in modules.keys() & set(_named_in(file)) - {_name(file)}:
            importers[name].add(_name(file))
    alone = {name for name, found in importers.items() if len(found) < 2} - {"memoryd.__main__"}
    section = _architecture().partition("## Modules with one importer")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = {_name(PACKAGE / path) for row in rows for path in re.findall(r"`([\w/]+\.py)`", row)}
    assert listed == alone


def test_the_picture_can_be_read() -> None:
    """It is well-formed, says in words what it shows, and loads nothing from elsewhere."""
    text = (ROOT / "docs" / "how-it-works.svg").read_text()
    root = xml.etree.ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title")
    assert root.findtext(f"{space}desc")
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"(?:href=|@import|url\((?!#))", text) == []


def _architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text()


def _name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def _named_in(file: Path) -> Iterator[str]:
    """The modules that a module imports, at any place in it, or names to be imported late."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def test_every_key_that_only_memoryd_writes_is_on_the_page() -> None:
    from memoryd.fields import SYSTEM_KEYS

    page = (ROOT / "docs" / "fields.md").read_text()
    section = page.partition("## Written by memoryd")[2].partition("\n## ")[0]
    assert set(SYSTEM_KEYS) == set(re.findall(r"`(\w+)`", _first_column(section)))


def _first_column(table: str) -> str:
    return "\n".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
