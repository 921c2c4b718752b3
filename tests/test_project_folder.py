"""Which project a directory belongs to, in real git checkouts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.labels import has_hidden
from memoryd.project_folder import MAX_NAME, own_project, project_at, repository
from tests.checkouts import checkout, git


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.delenv("MEMORYD_PROJECT")
    return made


@pytest.mark.parametrize(
    "remote",
    [
        "git@github.com:acme/app.git",
        "github.com:acme/app",
        "gh:acme/app.git",
        "https://github.com/acme/app",
        "https://github.com/acme/app.git/",
        "https://user:pass%20word@example.com:8443/acme/app.git",
        "https://user:p@ss/word@example.com/acme/app.git",
        "ssh://git@example.com:22/acme/app.git",
        "git://example.com/acme/app.git?x=1#y",
        "/srv/git/acme/app.git",
        "file:///srv/git/acme/app",
        "../acme/app/.git",
    ],
)
def test_two_clones_are_one_project(home: Path, remote: str) -> None:
    """Whatever the way to the remote is; neither host nor password is part of the name."""
    one, two = checkout(home / "one", remote), checkout(home / "b" / "two", remote)
    assert project_at(one) == project_at(two) == "acme/app"


def test_a_path_of_several_groups_is_kept() -> None:
    assert repository("https://gitlab.com/acme/tools/app.git", Path("/")) == "acme/tools/app"


def test_without_a_remote_it_is_the_folder(home: Path, tmp_path: Path) -> None:
    assert project_at(checkout(home / "work" / "app")) == "~/work/app"
    outside = checkout(tmp_path / "srv" / "app")
    assert project_at(outside) == str(outside)
    below = outside / "src" / "deep"
    below.mkdir(parents=True)
    assert project_at(below) == str(outside)


def test_origin_comes_before_other_remotes(home: Path) -> None:
    folder = home / "app"
    git(folder, "init", "-q")
    git(folder, "remote", "add", "fork", "git@example.com:me/app")
    assert project_at(folder) == "me/app"
    git(folder, "remote", "add", "origin", "git@example.com:acme/app")
    assert project_at(folder) == "acme/app"


def test_worktrees_belong_to_the_project_of_their_repository(home: Path) -> None:
    main = checkout(home / "main")
    git(main, "worktree", "add", "-q", str(home / "elsewhere" / "tree"))
    assert project_at(home / "elsewhere" / "tree") == "~/main"
    git(main, "remote", "add", "origin", "git@example.com:acme/app")
    assert project_at(home / "elsewhere" / "tree") == "acme/app"


def test_a_submodule_is_a_project_of_its_own(home: Path) -> None:
    library = checkout(home / "libs" / "parser")
    main = checkout(home / "main", "git@example.com:acme/app")
    git(main, "submodule", "add", "-q", str(library), "vendor/parser")
    assert (main / "vendor" / "parser" / ".git").is_file()
    assert project_at(main / "vendor" / "parser") == "libs/parser"
    git(main / "vendor" / "parser", "remote", "remove", "origin")
    assert project_at(main / "vendor" / "parser") == "~/main/vendor/parser"


def test_home_and_root_are_no_project(home: Path) -> None:
    """Desktop programs start their servers there; and some keep their settings in git."""
    checkout(home, "git@example.com:me/dotfiles")
    (home / "Downloads").mkdir()
    for folder in (home, home / "Downloads", Path("/")):
        assert project_at(folder) is None
    assert project_at(checkout(home / "app")) == "~/app"


def test_a_folder_outside_of_git_is_no_project(tmp_path: Path, home: Path) -> None:
    (tmp_path / ".git").mkdir()  # not a git directory
    assert project_at(tmp_path) is None
    assert project_at(tmp_path / "missing") is None


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: nowhere", "\0", "gitdir: \0", "x" * 9999])
def test_a_broken_git_file_is_no_project(tmp_path: Path, home: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert project_at(tmp_path) is None


def test_a_config_that_cannot_be_read_is_no_project(home: Path) -> None:
    """A pipe in its place must not block a client's start."""
    folder = checkout(home / "app", "git@example.com:acme/app")
    (folder / ".git" / "config").unlink()
    os.mkfifo(folder / ".git" / "config")
    assert project_at(folder) == "~/app"
    (folder / ".git" / "config").unlink()
    (folder / ".git" / "config").write_bytes(b"\xff\xfe[remote]")
    assert project_at(folder) is None


def test_of_a_huge_config_only_the_beginning_is_read(home: Path) -> None:
    folder = checkout(home / "app", "git@example.com:acme/app")
    with open(folder / ".git" / "config", "ab") as config:
        config.truncate(1 << 40)  # a file of holes
    assert project_at(folder) == "acme/app"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('[remote "origin"]\n  url = "git@x:acme/app.git" # old', "acme/app"),
        ('[REMOTE "origin"]\n\tURL=git@x:acme/app.git ; note', "acme/app"),
        ('[remote "origin"] # c\n url = git@x:acme/app\n url = git@x:other/b', "acme/app"),
        ('[branch "main"]\n url = git@x:no/no\n[remote "origin"]\n fetch = x', "~/app"),
        ('[remote "origin"]\n url = git@x:acme/a\u200bpp', None),
    ],
)
def test_a_config_as_git_reads_it(home: Path, text: str, name: str | None) -> None:
    folder = checkout(home / "app")
    (folder / ".git" / "config").write_text(text)
    assert project_at(folder) == name


def test_a_long_path_becomes_a_name_that_fits(home: Path) -> None:
    deep = home / ("a" * 100) / ("b" * 100) / ("c" * 100)
    other = home / ("x" * 100) / ("b" * 100) / ("c" * 100)
    names = [project_at(checkout(folder)) for folder in (deep, other)]
    assert names[0] != names[1]
    for name in names:
        assert name is not None
        assert len(name) <= MAX_NAME
        assert not has_hidden(name)


def test_what_is_given_wins_over_what_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout(home / "app"))
    assert own_project() == ("~/app", False)
    monkeypatch.setenv("MEMORYD_PROJECT", "by variable")
    assert own_project() == ("by variable", True)
    assert own_project("by flag") == ("by flag", True)
    assert own_project("") == ("", True)
    monkeypatch.setenv("MEMORYD_PROJECT", "")
    assert own_project() == ("", True)


def test_a_working_directory_that_is_gone_is_no_project(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert own_project() == ("", False)
