"""Another embedding model in the configuration: the same memories, their vectors made anew.

The store is rewritten for the new model with every memory waiting for its vector, in one swap;
the engine then embeds in the background, and a kill leaves the rest waiting as before. Until a
memory has its vector it is found by words, and answers say how many wait.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from memoryd.adapters.chroma_collection import PAGE, SCHEMA, identity_of
from memoryd.adapters.chroma_fresh import Fresh, close
from memoryd.adapters.chroma_open import NO_MODEL, open_embedded
from memoryd.adapters.chroma_rows import OF, SCHEMA_KEY, plain_rows, to_records
from memoryd.adapters.chroma_salvage import collection_facts
from memoryd.adapters.store_swap import LIVE
from memoryd.ports import Identity, Progress, Record
from memoryd.settings import StoreSettings


def is_for_another(folder: Path, collection: str, identity: Identity) -> bool:
    """Whether the store holds the vectors of another model than the one that is to serve."""
    facts = collection_facts(folder, collection)
    if facts.get(SCHEMA_KEY) != SCHEMA or identity.model == NO_MODEL:
        return False
    before = identity_of(facts)
    taken_over = before.model == NO_MODEL and before.dimension == identity.dimension
    return before != identity and not taken_over


def remodel(
    settings: StoreSettings, data_dir: Path, identity: Identity, say: Callable[[Progress], None]
) -> None:
    """Rewrite every memory without its vectors; killed meanwhile, the store is as it was."""
    folder = data_dir / LIVE
    source = open_embedded(settings, folder, identity=None)
    fresh = Fresh(settings, data_dir, identity)
    ids = source.memory_ids()
    for start in range(0, len(ids), PAGE):
        say(Progress("changing the model", start, len(ids)))
        rows = [row for row in source.fetch(ids[start : start + PAGE]) if OF not in row.meta]
        waiting = [Record(record.memory) for record in to_records(rows)[0]]
        fresh.add(plain_rows(waiting, identity.dimension))
    fresh.close(ids)
    close(source, folder)
    fresh.finish("model")
