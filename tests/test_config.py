"""Settings: every one documented, every mistake named."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from memoryd.config import data_dir_in, load
from memoryd.errors import ConfigError
from memoryd.places import data_dir
from memoryd.settings import Config, keys, variable

DEFAULT = Path(__file__).parent.parent / "config" / "default.yaml"


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def write(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    return file


def test_the_default_file_is_the_code() -> None:
    assert load(DEFAULT, environ={}) == Config()


def test_the_default_file_lists_every_setting_with_a_comment() -> None:
    data = yaml.safe_load(DEFAULT.read_text())
    assert [f"{section}.{key}" for section, part in data.items() for key in part] == keys()
    bare = [
        line
        for before, line in pairwise(DEFAULT.read_text().splitlines())
        if line.startswith("  ")
        and line[2] != " "  # a row of a table, which has one comment
        and "#" not in (line.strip()[0], before.strip()[:1])
    ]
    assert bare == []


def test_nothing_configured_is_the_default() -> None:
    assert load(environ={}) == Config()


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file = write(tmp_path, "memory: {cleanup_interval: 10, context_window_size: 7}")
    environ = {"MEMORYD_MEMORY_CLEANUP_INTERVAL": "20"}
    assert load(file, {}).memory.cleanup_interval == 10.0
    assert load(file, environ).memory.cleanup_interval == 20.0
    config = load(file, environ, {"memory.cleanup_interval": 30, "memory.path": None})
    assert config.memory.cleanup_interval == 30.0
    assert config.memory.context_window_size == 7
    assert config.memory.path == data_dir()


def test_the_file_can_be_named_by_a_variable_or_found_at_home(tmp_path: Path) -> None:
    file = write(tmp_path, "search: {limit: 9}")
    assert load(environ={"MEMORYD_CONFIG": str(file)}).search.limit == 9
    home = tmp_path / ".config" / "memoryd"
    home.mkdir(parents=True)
    write(home, "search: {limit: 8}")
    assert load(environ={}).search.limit == 8


def test_variables_have_the_type_of_their_setting(tmp_path: Path) -> None:
    environ = {
        "MEMORYD_DATA_DIR": str(tmp_path),
        "MEMORYD_STORE_SSL": "true",
        "MEMORYD_STORE_HEADERS": "{x-token: abc}",
        "MEMORYD_STORE_TENANT": "123",
        "MEMORYD_SEARCH_LIMIT": "",
    }
    config = load(environ=environ)
    assert config.memory.path == tmp_path
    assert config.store.ssl is True
    assert config.store.headers == {"x-token": "abc"}
    assert config.store.tenant == "123"
    assert config.search.limit == 5


def test_the_full_name_of_a_variable_beats_the_short_one(tmp_path: Path) -> None:
    environ = {"MEMORYD_DATA_DIR": "/short", "MEMORYD_MEMORY_PATH": "/full"}
    assert load(environ=environ).memory.path == Path("/full")


@pytest.mark.parametrize(
    ("text", "named", "nearest"),
    [
        ("memory: {cleanup_intervall: 5}", "memory.cleanup_intervall", "memory.cleanup_interval"),
        ("memroy: {path: x}", "memroy", "memory"),
        ("store: {min_score: 0.2}", "store.min_score", "search.min_score"),
        ("cleanup_interval: 5", "cleanup_interval", "memory.cleanup_interval"),
    ],
)
def test_an_unknown_key_is_named_with_its_file_and_the_nearest(
    tmp_path: Path, text: str, named: str, nearest: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert refused.value.code == "config_unknown_key"
    for part in (f"`{named}`", f"`{nearest}`", str(file)):
        assert part in refused.value.message


def test_an_unknown_variable_or_flag_is_named() -> None:
    with pytest.raises(ConfigError, match=r"MEMORYD_MEMORY_PATHS.*MEMORYD_MEMORY_PATH`"):
        load(environ={"MEMORYD_MEMORY_PATHS": "x"})
    with pytest.raises(ConfigError, match=r"search\.limits"):
        load(environ={}, flags={"search.limits": 3})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("memory.cleanup_interval", "soon", "a number"),
        ("memory.cleanup_interval", "true", "a number"),
        ("memory.cleanup_interval", ".nan", "a number"),
        ("memory.cleanup_interval", "0", "at least"),
        ("memory.context_window_size", "2.5", "a whole number"),
        ("memory.context_window_size", "0", "at least 1"),
        ("memory.conversation_days", "-1", "above 0"),
        ("memory.embedding_model", "[a]", "text"),
        ("memory.path", "7", "a path"),
        ("memory.timezone", "Mars/Olympus", "time zone"),
        ("memory.secrets", "hide", "one of mask, refuse, allow"),
        ("embedding.backend", "torch", "one of onnx"),
        ("embedding.download", "1", "true or false"),
        ("store.headers", "{a: 1}", "text to text"),
        ("store.port", "70000", "at most"),
        ("search.min_score", "1.5", "at most 1"),
    ],
)
def test_a_wrong_value_is_named_with_key_and_file(
    tmp_path: Path, key: str, value: str, words: str
) -> None:
    section, _, name = key.partition(".")
    file = write(tmp_path, f"{section}: {{{name}: {value}}}")
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    for part in (f"`{key}`", words, str(file)):
        assert part in refused.value.message


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"search\.limit.*variable MEMORYD_SEARCH_LIMIT"):
        load(environ={"MEMORYD_SEARCH_LIMIT": "many"})


@pytest.mark.parametrize("text", ["memory: [", "- a", "memory: 5", "\x00"])
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        load(file, {})


def test_a_dotted_key_in_the_file_is_told_how_it_is_written(tmp_path: Path) -> None:
    file = write(tmp_path, "memory.cleanup_interval: 5")
    with pytest.raises(ConfigError, match="`cleanup_interval:` under `memory:`"):
        load(file, {})


def test_unreadable_files_are_errors_that_name_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        load(tmp_path / "missing.yaml", {})
    with pytest.raises(ConfigError, match=str(tmp_path)):
        load(tmp_path, {})
    file = tmp_path / "latin.yaml"
    file.write_bytes(b"memory: {path: \xff}")
    with pytest.raises(ConfigError, match="latin"):
        load(file, {})


def test_an_empty_file_or_section_changes_nothing(tmp_path: Path) -> None:
    assert load(write(tmp_path, ""), {}) == load(write(tmp_path, "memory:"), {}) == Config()


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert len({variable(key) for key in keys()}) == len(keys())


def test_the_home_directory_is_expanded(tmp_path: Path) -> None:
    file = write(tmp_path, "memory: {path: ~/memories}")
    assert load(file, {}).memory.path == tmp_path / "memories"


def test_a_relative_directory_is_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where some process happens to be: daemon and command line would disagree."""
    file = tmp_path / "c.yaml"
    file.write_text("memory: {path: data}")
    monkeypatch.chdir("/")
    assert load(file, {}).memory.path == tmp_path / "data"
    assert data_dir_in(file) == tmp_path / "data"
    file.write_text("memory: {path: ~/data}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_dir_in(file) == tmp_path / "home" / "data"
    file.write_text("search: {no_such: setting}")  # for the daemon to complain of
    assert data_dir_in(file) is None


def test_the_folders_of_projects_are_absolute(tmp_path: Path) -> None:
    file = write(tmp_path, "lifecycle: {project_folders: {me/shop: ~/src/shop, b: /srv/b}}")
    assert load(file, {}).lifecycle.project_folders == {"me/shop": "~/src/shop", "b": "/srv/b"}
    file = write(tmp_path, "lifecycle: {project_folders: {me/shop: src/shop}}")
    with pytest.raises(ConfigError, match="me/shop` must be an absolute path") as refused:
        load(file, {})
    assert refused.value.code == "config_wrong_type"


def test_the_folder_of_the_mirror_is_absolute(tmp_path: Path) -> None:
    assert load(write(tmp_path, "mirror: {path: ~/memory}"), {}).mirror.path == "~/memory"
    with pytest.raises(ConfigError, match=r"`mirror\.path` must be an absolute path") as refused:
        load(write(tmp_path, "mirror: {path: memory}"), {})
    assert refused.value.code == "config_wrong_type"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("{factors: {define: {gotcha: 3}}}", "config_out_of_range"),
        ("{shares: {define: {gotcha: 101}}}", "config_out_of_range"),
        ("{tokens: {define: 0}}", "config_out_of_range"),
        ("{tokens: {define: 1.5}}", "config_wrong_type"),
        ("{factors: {define: 1}}", "config_wrong_type"),
        ("{shares: {party: {gotcha: 1}}}", "config_wrong_type"),
    ],
)
def test_the_tables_of_phases_are_checked(tmp_path: Path, value: str, code: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"phases: {value}\n")
    with pytest.raises(ConfigError) as refused:
        load(file, {})
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"MEMORYD_SEARCH_INDEX": "remote"}, "store.mode"),
        (
            {
                "MEMORYD_SEARCH_INDEX": "remote",
                "MEMORYD_STORE_MODE": "http",
                "MEMORYD_MIRROR_PATH": "/m",
            },
            "mirror.path",
        ),
        (
            {
                "MEMORYD_SEARCH_INDEX": "remote",
                "MEMORYD_STORE_MODE": "http",
                "MEMORYD_STORE_OFFLINE": "queue",
            },
            "store.offline",
        ),
    ],
)
def test_a_daemon_without_an_index_needs_a_server_and_has_no_mirror(
    settings: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=named) as refused:
        load(environ={"MEMORYD_CONFIG": "/dev/null", **settings})
    assert refused.value.code == "config_conflict"


def test_a_daemon_without_an_index_needs_no_setting_but_the_server() -> None:
    given = {"MEMORYD_SEARCH_INDEX": "remote", "MEMORYD_STORE_MODE": "http"}
    assert load(environ={"MEMORYD_CONFIG": "/dev/null", **given}).store.audience == "team"
