"""The cache of prepared models survives damage, kills and concurrent preparations."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoryd.adapters.embed.cache import DATA, GRAPH, RECIPE, read
from memoryd.adapters.embed.catalogue import sha256
from memoryd.adapters.embed.onnx_encoder import OnnxEncoder
from memoryd.adapters.embed.resolve import Prepared, resolve
from memoryd.errors import EmbedError, ModelCorrupt
from tests.adapters.embed.tiny_bert import damage


@pytest.mark.parametrize("name", [GRAPH, DATA, "tokenizer.json", RECIPE])
@pytest.mark.parametrize("harm", [damage, Path.unlink, lambda path: os.truncate(path, 100)])
@pytest.mark.slow
def test_a_damaged_preparation_is_made_again(
    name: str, harm: Callable[[Path], Any], tiny: Path, tmp_path: Path
) -> None:
    made = resolve(str(tiny), tmp_path / "cache")
    if name == DATA:  # the tiny model has no tensor that is large enough for this file
        made = resolve("all-MiniLM-L6-v2", tmp_path / "cache")
    model = str(tiny) if name != DATA else "all-MiniLM-L6-v2"
    hashes = {path.name: sha256(path) for path in made.folder.iterdir() if path.name != RECIPE}
    harm(made.folder / name)
    assert read(made.folder) is None
    again = resolve(model, tmp_path / "cache")
    assert again == made
    assert {p.name: sha256(p) for p in again.folder.iterdir() if p.name != RECIPE} == hashes
    assert len(OnnxEncoder(again).encode(["tea"])) == 1
    assert not list((tmp_path / "cache").glob(".making-*"))


def test_a_copied_preparation_is_hashed_once(tiny: Path, tmp_path: Path) -> None:
    """Files with other time stamps stay valid; the new time stamps are recorded."""
    made = resolve(str(tiny), tmp_path / "cache")
    os.utime(made.folder / DATA, (1, 1))
    assert read(made.folder) == made
    stamps = json.loads((made.folder / RECIPE).read_text())["files"]
    assert stamps[DATA]["mtime_ns"] == 10**9


def test_a_folder_whose_recipe_changed_is_prepared_again(tiny: Path, tmp_path: Path) -> None:
    assert resolve(str(tiny), tmp_path / "cache").max_tokens == 32
    (tiny / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    assert resolve(str(tiny), tmp_path / "cache").max_tokens == 16


@pytest.mark.slow
def test_processes_that_prepare_at_once_all_succeed(tiny: Path, tmp_path: Path) -> None:
    """Of several preparations at the same time one is kept, and all use it."""
    program = (
        "import sys; from pathlib import Path\n"
        "from memoryd.adapters.embed.resolve import resolve\n"
        "from memoryd.adapters.embed import graph\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "made = resolve(sys.argv[1], Path(sys.argv[2]))\n"
        "print(made.folder, len(list(made.folder.iterdir())))\n"
    )
    command = [sys.executable, "-c", program, str(tiny), str(tmp_path / "cache")]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = [racer.communicate(timeout=60)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    assert len(set(answers)) == 1
    (folder,) = (tmp_path / "cache").iterdir()
    assert answers[0] == f"{folder} 4\n"


def test_what_a_kill_left_behind_is_removed_later(tiny: Path, tmp_path: Path) -> None:
    old, young = tmp_path / "cache/.making-old", tmp_path / "cache/.making-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / GRAPH).write_bytes(b"half")
    os.utime(old, (1, 1))
    resolve(str(tiny), tmp_path / "cache")
    assert not old.exists()
    assert young.exists()  # another process may be at work there


def test_a_cache_that_cannot_be_written_is_a_clear_error(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(EmbedError, match="cannot be prepared in"):
        resolve(str(tiny), tmp_path / "file" / "cache")


def test_a_prepared_folder_that_vanishes_is_a_clear_error(tiny: Path, tmp_path: Path) -> None:
    made = resolve(str(tiny), tmp_path / "cache")
    shutil.rmtree(made.folder)
    with pytest.raises(ModelCorrupt, match="cannot be loaded"):
        OnnxEncoder(made)


def test_reading_a_cache_needs_the_standard_library_alone(minilm: Prepared) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from memoryd.adapters.embed.resolve import resolve\n"
        f"resolve('all-MiniLM-L6-v2', Path({str(minilm.folder.parent)!r}))\n"
        "foreign = {'numpy', 'onnx', 'safetensors', 'huggingface_hub', 'tokenizers'}\n"
        "sys.exit(', '.join(sorted(foreign & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
