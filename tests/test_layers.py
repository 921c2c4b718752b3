"""Arrows point one way: words <- engine / adapters <- doors <- wiring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "memoryd"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each layer may import of ours. Wiring and daemon may import all but the command line.
WORDS = set("model errors ports settings config places permissions metadata logs tasks".split())
WORDS |= {"daemon_record", "endpoints", "export_file", "fair", "fields", "files", "formats"}
WORDS |= {"audience", "hook_events", "hosts", "imports", "index_files", "phases"}
WORDS |= {"labels", "lead", "masking", "normalise", "owner", "sanitize", "systemd", "toolsets"}
WORDS |= {"project_folder", "recall_text", "uncaught", "amounts", "diagnosis", "setting_view"}
MAY = {
    "words": {"words"},
    "engine": {"words", "engine"},
    "adapters": {"words", "adapters"},
    "doors": {"words", "engine", "doors"},
    "wiring": {"words", "engine", "adapters", "wiring"},
    "daemon": {"words", "engine", "doors", "wiring"},
    "launch": {"words", "launch"},
    "client": {"words", "launch", "client"},
    "shim": {"words", "launch", "shim"},
    "hook": {"words", "launch", "hook"},
    "service": {"words", "launch", "service"},
    "setup": {"words", "setup"},
    "cli": {"words", "launch", "client", "shim", "hook", "wiring", "daemon", "service", "setup"}
    | {"cli"},
    "__main__": {"cli", "hook", "shim"},
}

# Each foreign package has one home.
HOMES: dict[str, str | tuple[str, ...]] = {
    "chromadb": "adapters/chroma/",
    "sqlite3": ("adapters/chroma/", "imports/sqlite_file"),
    "onnxruntime": "adapters/embed/",
    "onnx": "adapters/embed/",
    "tokenizers": "adapters/embed/",
    "safetensors": "adapters/embed/",
    "huggingface_hub": "adapters/embed/",
    "sentence_transformers": "adapters/embed/sbert",
    "torch": "adapters/embed/sbert",
    "mcp": "doors/",
    "Stemmer": "engine/index/terms",
    "starlette": ("doors/web", "doors/page"),
    "uvicorn": "doors/web",
    "rich": "cli/screen/",
    "yaml": ("config", "setup/syntax/yaml"),
}


def layer(path: Path) -> str:
    top = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if top in WORDS or top == "__init__":
        return "words"
    return top


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module.startswith("memoryd"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(name: str) -> Path | None:
    """The file of one of our modules."""
    parts = name.split(".")
    if parts[0] != "memoryd":
        return None
    base = PACKAGE.joinpath(*parts[1:])
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((file for file in files if file.exists()), None)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_arrow_points_back(path: Path) -> None:
    allowed = MAY[layer(path)]
    if path == PACKAGE / "__init__.py":
        allowed = allowed | {"client"}  # what programs use, imported late
    wrong = [name for name in imports(path) if (file := ours(name)) and layer(file) not in allowed]
    assert wrong == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_foreign_packages_stay_at_home(path: Path) -> None:
    here = str(path.relative_to(PACKAGE))
    found = {name.split(".")[0] for name in imports(path)}
    assert [
        name for name, home in HOMES.items() if name in found and not here.startswith(home)
    ] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


# Words of a change of model. The engine serves one model; only the job beside it knows of another.
CHANGE = re.compile(
    r"model[_ ]?change|change of (the )?model|(previous|former|next|other|new|old)[_ ]model"
    r"|next[_ ]?store|remodel",
    re.IGNORECASE,
)
MAY_KNOW = ("engine/engine.py", "engine/models/")


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "engine").rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_only_its_own_module_knows_of_a_change_of_model(path: Path) -> None:
    """Search, commits, index, upkeep and the rest have one model, whichever it is."""
    if not str(path.relative_to(PACKAGE)).startswith(MAY_KNOW):
        assert CHANGE.findall(path.read_text()) == []
        assert not any("model_change" in name for name in imports(path))


def test_the_test_sees_who_knows_of_a_change_of_model() -> None:
    for name in ("engine/engine.py", "engine/models/model_change.py"):
        assert CHANGE.search((PACKAGE / name).read_text())


def test_the_test_sees_a_wrong_arrow(tmp_path: Path) -> None:
    """The reading of imports is itself right: this test can fail."""
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from memoryd.adapters import chroma\n    import torch.nn\n")
    assert {"memoryd.adapters.chroma", "torch.nn"} <= set(imports(file))
    assert ours("memoryd.adapters.chroma") == PACKAGE / "adapters" / "chroma" / "__init__.py"
    assert ours("memoryd.adapters.chroma.store") == PACKAGE / "adapters" / "chroma" / "store.py"
