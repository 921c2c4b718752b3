"""Configuration: one frozen value, loaded once, handed out in parts.

Defaults < YAML file < MEMORYD_* < flags. A setting is `section.key`; its variable is
MEMORYD_SECTION_KEY. An unknown key is an error that names the nearest known one: a typo that
is silently ignored costs more than a start that fails.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from memoryd import files
from memoryd.endpoints import check_endpoints
from memoryd.errors import ConfigError, InvalidInput
from memoryd.hosts import check_hosts
from memoryd.lead import check_names
from memoryd.phases import check_phases
from memoryd.places import config_file
from memoryd.settings import SECTIONS, TYPES, Config, keys, variable
from memoryd.toolsets import parse_toolsets

# Short names for variables that every process of one installation must agree on.
DATA_DIR = "memory.path"
SHORT_VARIABLES = {"MEMORYD_DATA_DIR": DATA_DIR}
FLAGS = {DATA_DIR: "--data-dir"}  # settings that a flag of every verb sets
Found = dict[str, tuple[object, str]]  # key -> value and where it was set
# Not settings of a daemon: they say which one is meant, and are for its clients.
NOT_SETTINGS = {"MEMORYD_CONFIG", "MEMORYD_SOCKET", "MEMORYD_PROJECT"} | {
    "MEMORYD_HOOKS",
    "MEMORYD_HOOK_BUDGETS",
}


def load(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """The configuration from file, environment and flags. Raises ConfigError.

    `file` None: MEMORYD_CONFIG, else the user's file if it exists. `flags` maps `section.key` to a
    value; None means not given.
    """
    config = Config()
    for found in sources(file, environ, flags):
        config = _merge(config, found)
    check_hosts(config.doors)
    _check_names("doors.toolsets", parse_toolsets, config.doors.toolsets)
    _check_names("search.lead_fields", check_names, config.search.lead_fields)
    for key in ("tokens", "factors", "shares"):
        _check_names(f"phases.{key}", check_phases, tuple(getattr(config.phases, key)))
    for project, folder in config.lifecycle.project_folders.items():
        _check_folder(f"lifecycle.project_folders.{project}", folder)
    if config.mirror.path:
        _check_folder("mirror.path", config.mirror.path)
    check_endpoints(config)
    _check_index(config)
    return config


def sources(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> tuple[Found, ...]:
    """What file, environment and flags set; later ones win. Arguments as for `load`."""
    environ = os.environ if environ is None else environ
    named = _named_file(file, environ)
    given = {k: v for k, v in (flags or {}).items() if v is not None}
    return (
        _from_file(named or config_file(), required=named is not None),
        _from_environment(environ),
        {key: (value, f"flag {FLAGS.get(key, key)}") for key, value in given.items()},
    )


def file_in_use(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The configuration file that is read if it exists. Arguments as for `load`."""
    return _named_file(file, os.environ if environ is None else environ) or config_file()


def _named_file(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    return file or (Path(environ["MEMORYD_CONFIG"]) if environ.get("MEMORYD_CONFIG") else None)


def data_dir_in(file: Path) -> Path | None:
    """The data directory that a configuration file names; None if it names none. Checks no other
    setting: a client that looks for a daemon need not know them all. Raises ConfigError."""
    found = _from_file(file, required=True).get(DATA_DIR)
    if found is None:
        return None
    checked = _checked(DATA_DIR, *found)
    return checked if isinstance(checked, Path) else None


def _merge(config: Config, found: Found) -> Config:
    for key, (value, where) in found.items():
        section, _, name = key.partition(".")
        if key not in keys():
            raise _unknown(key, keys(), where)
        checked = _checked(key, value, where)
        part = replace(getattr(config, section), **{name: checked})
        config = replace(config, **{section: part})
    return config


def _from_file(path: Path, *, required: bool) -> Found:
    import yaml  # late: the shim and the client read no YAML

    where = str(path)
    try:
        text = "" if where == os.devnull else files.read_text(path, named=True)
        data = yaml.safe_load(text)
    except FileNotFoundError as exc:
        if not required:
            return {}
        raise ConfigError(
            f"There is no configuration file {where}.", hint="Check --config and MEMORYD_CONFIG."
        ) from exc
    except files.NotAFile as exc:
        raise ConfigError(f"The configuration file cannot be read: {exc.strerror}.") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"The configuration file {where} cannot be read: {exc}.") from exc
    except yaml.YAMLError as exc:
        problem = " ".join(str(exc).split())
        raise ConfigError(f"The configuration file {where} is not valid YAML: {problem}.") from exc
    found = _flatten(data, where)
    if isinstance(named := found.get(DATA_DIR, ("",))[0], str) and named:
        # Relative to the file, not to the working directory, which differs between processes.
        found[DATA_DIR] = (str(path.absolute().parent / Path(named).expanduser()), where)
    return found


def _flatten(data: object, where: str) -> Found:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(
            f"{where} must contain sections such as `memory:`, not a bare value.",
            hint="Run: memoryd config --default",
        )
    found: Found = {}
    for section, values in data.items():
        if section in keys():
            part, _, name = section.partition(".")
            raise ConfigError(
                f"`{section}` in {where} must be written as `{name}:` under `{part}:`.",
                code="config_unknown_key",
            )
        if section not in SECTIONS:
            raise _unknown(str(section), [*SECTIONS, *keys()], where)
        if values is None:
            continue
        if not isinstance(values, dict):
            raise ConfigError(f"`{section}` in {where} must be a section with keys under it.")
        found |= {f"{section}.{name}": (value, where) for name, value in values.items()}
    return found


def _from_environment(environ: Mapping[str, str]) -> Found:
    known = {variable(key): key for key in keys()} | SHORT_VARIABLES
    found: Found = {}
    # Short names first, so that the full name of the same setting wins.
    for name in sorted(environ, key=lambda name: (name not in SHORT_VARIABLES, name)):
        if not name.startswith("MEMORYD_") or name in NOT_SETTINGS or environ[name] == "":
            continue
        if name not in known:
            raise _unknown(name, list(known), "the environment")
        found[known[name]] = (_parse_text(known[name], environ[name]), f"variable {name}")
    return found


def _parse_text(key: str, text: str) -> object:
    """The value of a variable, parsed as YAML unless the setting is a string or a path."""
    import yaml

    section, _, name = key.partition(".")
    if TYPES[section][name] in (str, Path):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _unknown(key: str, known: list[str], where: str) -> ConfigError:
    tail = key.rpartition(".")[2]
    closest = difflib.get_close_matches(key, known, n=1, cutoff=0.6) or [
        item for item in known if item.rpartition(".")[2] == tail
    ]
    closest = closest or difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return ConfigError(
        f"There is no setting `{key}` ({where}). The nearest is `{closest[0]}`.",
        code="config_unknown_key",
        hint="Run: memoryd config --default",
    )


def _checked(key: str, value: object, where: str) -> object:
    """`value` converted to the type of the setting. Raises ConfigError if it has another type or is
    out of range."""
    section, _, name = key.partition(".")
    wanted = TYPES[section][name]
    converted = _converted(value, wanted)
    if converted is None:
        raise ConfigError(
            f"`{key}` must be {_describe(wanted)}, not {value!r} ({where}).",
            code="config_wrong_type",
        )
    limits = next(item for item in fields(SECTIONS[section]) if item.name == name).metadata
    _check_range(key, converted, limits, where)
    if key == "memory.timezone":
        _check_zone(str(converted), where)
    return converted


def _converted(value: object, wanted: Any) -> object | None:
    """The value converted to the type `wanted`; None if it is not one. True is not a number."""
    if get_origin(wanted) is Literal:
        return value if value in get_args(wanted) else None
    if wanted is bool:
        return value if isinstance(value, bool) else None
    if wanted is Path:
        return Path(str(value)).expanduser().absolute() if _is_text(value) and value else None
    if wanted is str:
        return str(value) if _is_text(value) else None
    if get_origin(wanted) is tuple:
        return _texts(value)
    if get_origin(wanted) is dict:
        return _mapping(value, get_args(wanted)[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if wanted is int:
        return value if isinstance(value, int) else None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_text(value: object) -> bool:
    return isinstance(value, str | Path)


def _texts(value: object) -> tuple[str, ...] | None:
    """A list of strings, or one string split at commas; None for anything else."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def _mapping(value: object, wanted: Any) -> dict[str, object] | None:
    """A mapping of text to values of the type `wanted`; None for anything else."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    found = {key: _converted(item, wanted) for key, item in value.items()}
    return None if None in found.values() else found


def _describe(wanted: Any) -> str:
    if get_origin(wanted) is Literal:
        return "one of " + ", ".join(get_args(wanted))
    if get_origin(wanted) is dict:
        held = get_args(wanted)[1]
        items = {str: "text", int: "whole numbers", float: "numbers"}
        return f"a mapping of text to {items.get(held, 'mappings of text to numbers')}"
    if get_origin(wanted) is tuple:
        return "a list of texts"
    names = {int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(wanted, "a path" if wanted is Path else "text")


def _check_range(key: str, value: object, limits: Mapping[str, Any], where: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _check_range(f"{key}.{name}", item, limits, where)
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    rules = {
        "at least": "least" not in limits or value >= limits["least"],
        "at most": "most" not in limits or value <= limits["most"],
        "above": "above" not in limits or value > limits["above"],
    }
    for words, holds in rules.items():
        if not holds:
            bound = limits[words.split()[-1]]
            raise ConfigError(
                f"`{key}` must be {words} {bound:g}, not {value!r} ({where}).",
                code="config_out_of_range",
            )


def _check_names(
    key: str, check: Callable[[tuple[str, ...]], object], names: tuple[str, ...]
) -> None:
    try:
        check(names)
    except InvalidInput as exc:
        raise ConfigError(
            f"`{key}`: {exc.message}", code="config_wrong_type", hint=exc.hint
        ) from exc


def _check_index(config: Config) -> None:
    """A daemon without an index needs a server that finds memories, and cannot write a mirror."""
    if config.search.index != "remote":
        return
    if config.store.mode != "http":
        raise ConfigError(
            "`search.index: remote` needs `store.mode: http`.",
            code="config_conflict",
            hint="Set store.mode to http, or search.index to memory.",
        )
    if config.store.offline == "queue":
        raise ConfigError(
            "`search.index: remote` needs `store.offline: refuse`: queued writes need an index.",
            code="config_conflict",
            hint="Remove store.offline, or set search.index to memory.",
        )
    if config.mirror.path:
        raise ConfigError(
            "`mirror.path` needs `search.index: memory`: a mirror has all memories.",
            code="config_conflict",
            hint="Remove mirror.path, or set search.index to memory.",
        )


def _check_folder(key: str, folder: str) -> None:
    if not Path(folder).expanduser().is_absolute():
        raise ConfigError(
            f"`{key}` must be an absolute path, not {folder!r}.", code="config_wrong_type"
        )


def _check_zone(name: str, where: str) -> None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError) as exc:
        raise ConfigError(
            f"`memory.timezone` names no known time zone: {name!r} ({where}).",
            code="config_wrong_type",
            hint="Use a name such as Europe/Vienna, or leave it empty for the system's time zone.",
        ) from exc
