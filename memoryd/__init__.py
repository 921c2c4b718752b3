"""memoryd: the one memory that every agent on a machine shares."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `typing`, whose import would slow down the shim and the hook
if TYPE_CHECKING:
    from typing import Any

    from memoryd.client.memory_manager import Memory, MemoryManager, SearchResult
    from memoryd.client.providers import (
        MemoryProvider,
        WorkingMemoryProvider,
        available_providers,
        create_memory_provider,
        has_working_memory,
    )
    from memoryd.model import MemoryType

# Before numpy is first imported: its linear algebra takes one thread, and we use several of
# ours where it pays. Its own wait for each other by spinning, which costs ten times the time as
# soon as somebody else needs a core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
__all__ = [
    "Memory",
    "MemoryManager",
    "MemoryProvider",
    "MemoryType",
    "SearchResult",
    "WorkingMemoryProvider",
    "available_providers",
    "create_memory_provider",
    "has_working_memory",
]
OF_MEMORY_MANAGER = {"Memory", "MemoryManager", "MemoryType", "SearchResult"}


def __getattr__(name: str) -> Any:
    """Import late what programs use: the shim imports this package and must stay light."""
    if name not in __all__:
        raise AttributeError(f"module 'memoryd' has no attribute {name!r}")
    if name in OF_MEMORY_MANAGER:
        from memoryd.client import memory_manager

        return getattr(memory_manager, name)
    from memoryd.client import providers

    return getattr(providers, name)
