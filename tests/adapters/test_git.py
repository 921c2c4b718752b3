"""git as the history of files: real repositories, and nothing of theirs is run or written."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from memoryd.adapters import git
from memoryd.adapters.git import Git

WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def run(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *WHO, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, **files: str | None) -> str:
    """Write or delete files and commit; the commit."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.unlink() if text is None else path.write_text(text)
    run(folder, "add", "-A")
    run(folder, "commit", "-q", "-m", "x")
    return run(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    run(folder, "init", "-q")
    return folder


def test_it_names_what_later_commits_changed_or_deleted(repository: Path) -> None:
    first = commit(repository, src__db_ts="1", src__auth_ts="1", read_me="1")
    commit(repository, src__db_ts="2")
    commit(repository, src__auth_ts=None)
    asked = ["src/db.ts", "src/auth.ts", "read.me", "never.ts"]
    assert Git().changed(repository, first, asked) == {"src/db.ts", "src/auth.ts"}
    assert Git().changed(repository, first[:7], ["src/db.ts"]) == {"src/db.ts"}
    assert Git().changed(repository / "src", first, ["db.ts"]) == {"db.ts"}
    assert Git().changed(repository, run(repository, "rev-parse", "HEAD"), asked) == set()


def test_it_says_nothing_where_it_does_not_know(repository: Path, tmp_path: Path) -> None:
    first = commit(repository, a="1")
    assert Git().changed(repository, "0" * 40, ["a"]) is None
    assert Git().changed(repository, "--output=x", ["a"]) is None
    assert Git().changed(tmp_path, first, ["a"]) is None
    assert Git().changed(tmp_path / "nowhere", first, ["a"]) is None
    assert Git().changed(repository, first, ["a\0b"]) is None
    assert not (repository / "x").exists()


def test_names_are_no_patterns(repository: Path) -> None:
    first = commit(repository, a="1", b="1")
    commit(repository, a="2", b="2")
    assert Git().changed(repository, first, ["*"]) == set()
    assert Git().changed(repository, first, [":(top)a"]) == set()


def test_nothing_that_a_repository_configures_is_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit(repository, a_txt="1")
    commit(repository, a_txt="2")
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    for key in ("filter.x.clean", "diff.x.command", "diff.x.textconv", "core.fsmonitor"):
        run(repository, "config", key, str(trap))
    (repository / ".git" / "hooks" / "post-index-change").symlink_to(trap)
    os.utime(repository / "a.txt", (1, 1))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    index = (repository / ".git" / "index").stat().st_mtime_ns
    assert Git().changed(repository, first, ["a.txt"]) == {"a.txt"}
    assert not sprung.exists()
    assert (repository / ".git" / "index").stat().st_mtime_ns == index


def test_a_git_that_hangs_or_is_missing_says_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit(repository, a="1")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "TIMEOUT", 0.2)
    assert Git().changed(repository, first, ["a"]) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Git().changed(repository, first, ["a"]) is None
