"""The knowledge graph of the reference server `server-memory`: JSON lines of entities, each with
observations, and of relations. Each observation and each relation becomes a fact. The file has no
times and no ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memoryd.imports.rows import Found, Maker, Row, Skipped, broken, derived_id, texts
from memoryd.imports.text_files import first_objects, lines_of, time_of

NAME = "server-memory"
ENTITY, RELATION = "entity", "relation"


def fits(path: Path) -> bool:
    """Whether this is such a file, by its first line."""
    if not path.is_file():
        return False
    first = first_objects(path, named=True)[:1]
    return bool(first) and _is_ours(first[0])


def read(path: Path) -> Found:
    """A fact for each observation and relation."""
    maker = Maker(NAME, time_of(path))
    for found in lines_of(path, named=True):
        if isinstance(found, Skipped):
            yield found
            continue
        number, line = found
        where = f"{path.name}, line {number}"
        if not _is_ours(line):
            yield broken(where, "neither an entity nor a relation")
        elif line["type"] == ENTITY:
            yield from _entity(maker, line, where)
        else:
            yield _relation(maker, line, where)


def _is_ours(line: dict[str, Any]) -> bool:
    needed = {ENTITY: ("name",), RELATION: ("from", "to", "relationType")}.get(
        str(line.get("type")), ()
    )
    return bool(needed) and all(isinstance(line.get(key), str) and line[key] for key in needed)


def _entity(maker: Maker, line: dict[str, Any], where: str) -> Found:
    name, type = line["name"], line.get("entityType")
    about = {"entity": name, "entity_type": type}
    given = line.get("observations")
    said = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
    said = [text for text in said if text.strip()]
    if not said:  # that it exists is all that is known
        text = f"{name} ({type})" if isinstance(type, str) and type else name
        yield maker.fact(_id(name, ""), text, where=where, tags=texts([type]), metadata=about)
    for text in said:
        content = text if name.lower() in text.lower() else f"{name}: {text}"
        yield maker.fact(_id(name, text), content, where=where, tags=texts([type]), metadata=about)


def _relation(maker: Maker, line: dict[str, Any], where: str) -> Row:
    one, relation, other = line["from"], line["relationType"], line["to"]
    text = f"{one} {relation.replace('_', ' ')} {other}"
    return maker.fact(
        derived_id(NAME, RELATION, one, relation, other),
        text,
        where=where,
        metadata={"entity": one, "relation": relation, "to_entity": other},
    )


def _id(name: str, text: str) -> str:
    return derived_id(NAME, ENTITY, name, text)
