"""A store of an older schema, rewritten into this one. The former is kept under `backups`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import PAGE, SCHEMA
from memoryd.adapters.chroma.open import open_embedded
from memoryd.adapters.chroma.rewrite import Fresh, close
from memoryd.adapters.chroma.rows import SCHEMA_KEY, Row
from memoryd.adapters.chroma.sqlite_read import collection_facts
from memoryd.ports import Progress
from memoryd.settings import StoreSettings

# What turns a row of one schema into a row of the next. Schema 1 is the first.
MIGRATIONS: dict[int, Callable[[Row], Row]] = {}


def is_older(folder: Path, collection: str) -> bool:
    """Whether the store has an older schema that can be brought to this one."""
    schema = collection_facts(folder, collection).get(SCHEMA_KEY)
    if not isinstance(schema, int) or schema >= SCHEMA:
        return False
    return all(number in MIGRATIONS for number in range(schema, SCHEMA))


def migrate(settings: StoreSettings, data_dir: Path, say: Callable[[Progress], None]) -> None:
    """Rewrite every row step by step; killed meanwhile, the older store is as it was."""
    folder = data_dir / swap.LIVE
    schema = int(collection_facts(folder, settings.collection)[SCHEMA_KEY])
    source = open_embedded(settings, folder, identity=None)
    fresh = Fresh(settings, data_dir, source.made_for, source.others)
    ids = source.ids()
    for start in range(0, len(ids), PAGE):
        say(Progress("migrating", start, len(ids)))
        fresh.add([_brought(row, schema) for row in source.fetch(ids[start : start + PAGE])])
    for _ in fresh.keep_others(source):
        say(Progress("migrating", len(ids), len(ids)))
    fresh.close(ids)
    close(source, folder)
    fresh.finish("migrate", aside=swap.dated(f"{swap.OLDER}{schema}-"))


def _brought(row: Row, schema: int) -> Row:
    for number in range(schema, SCHEMA):
        row = MIGRATIONS[number](row)
    return row
