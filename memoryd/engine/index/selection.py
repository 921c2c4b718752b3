"""What a filter needs of the index, to say on a thread which memories match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Condition, Field, OneOf, combined
from memoryd.engine.index.columns import Mask
from memoryd.engine.index.entries import EntriesView
from memoryd.engine.index.metadata_index import Values


@dataclass(frozen=True, slots=True)
class Selection:
    """All of one moment; by slot."""

    entries: EntriesView
    allowed: Mask
    others: Sequence[Condition]
    posted: Mapping[OneOf, Mask]
    values: Mapping[str, Values]
    created: NDArray[np.float64]
    expires: NDArray[np.float64]  # infinite if it does not expire

    def mask(self) -> Mask:
        """What matches. It may look at many memories, so run it on a thread."""
        found = self.allowed.copy()
        for condition in self.others:
            found &= combined(condition, self._leaf)
        return found

    def _leaf(self, leaf: OneOf | Field) -> Mask:
        if isinstance(leaf, OneOf):
            return self.posted[leaf]
        return self.values[leaf.key].slots(self.allowed, leaf.holds)
