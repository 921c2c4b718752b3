"""Which file a note is about."""

from __future__ import annotations

import pytest

from memoryd.engine.push.file_notes import names_file

CWD = "/home/ann/work/app/src"


@pytest.mark.parametrize(
    ("related", "file"),
    [
        ("/home/ann/work/app/src/main.py", "/home/ann/work/app/src/main.py"),
        ("src/main.py", "/home/ann/work/app/src/main.py"),
        ("./src/main.py", "/home/ann/work/app/src/main.py"),
        ("main.py", "main.py"),
        ("main.py", "./main.py"),
        ("setup.py", "../setup.py"),
        ("lib/deep/x.py", "/mnt/other/lib/deep/x.py"),
    ],
)
def test_the_same_file_in_other_words(related: str, file: str) -> None:
    assert names_file(["docs/readme.md", related], file, CWD)


@pytest.mark.parametrize(
    ("related", "file"),
    [
        ("main.py", "/home/ann/work/app/src/sub/main.py"),
        ("main.py", "/mnt/other/main.py"),
        ("src/main.py", "/home/ann/work/app/src/domain.py"),
        ("rc/main.py", "/home/ann/work/app/src/main.py"),
        ("/elsewhere/src/main.py", "/home/ann/work/app/src/main.py"),
    ],
)
def test_another_file_of_a_similar_name(related: str, file: str) -> None:
    assert not names_file([related], file, CWD)
