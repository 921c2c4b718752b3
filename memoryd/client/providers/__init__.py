"""Memory providers: what an agent needs of a memory, and several memories that give it."""

from memoryd.client.providers.protocol import (
    MemoryProvider,
    WorkingMemoryProvider,
    has_working_memory,
)
from memoryd.client.providers.registry import available_providers, create_memory_provider

__all__ = [
    "MemoryProvider",
    "WorkingMemoryProvider",
    "available_providers",
    "create_memory_provider",
    "has_working_memory",
]
