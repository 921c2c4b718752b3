"""Memory providers by name: ours, and those that installed packages register.

A package registers a provider by an entry point of the group `memoryd.providers`: a name, and a
callable that makes the provider from its configuration. Ours win over another one of their name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memoryd.client.providers.protocol import MemoryProvider
from memoryd.errors import InvalidInput, MemorydError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DEFAULT = "daemon"
GROUP = "memoryd.providers"
# Imported late: the window in RAM does not need what a connection needs.
BUILT_IN = {
    "daemon": "memoryd.client.providers.daemon:DaemonProvider",
    "daemon-lexical": "memoryd.client.providers.daemon:LexicalProvider",
    "window": "memoryd.client.providers.window:WindowProvider",
}


def available_providers() -> list[str]:
    """The names of all memory providers that are installed."""
    return sorted({*BUILT_IN, *_registered()})


def create_memory_provider(
    name: str = DEFAULT, config: Mapping[str, Any] | None = None
) -> MemoryProvider:
    """A provider with its configuration, not yet initialised. Raises InvalidInput if the name or
    the configuration is wrong."""
    made = _factory(name)(dict(config or {}))
    if not isinstance(made, MemoryProvider):
        missing = [part for part in _parts() if not hasattr(made, part)]
        raise MemorydError(
            f"The memory provider {name!r} lacks {', '.join(missing)}.",
            code="provider_incomplete",
            hint="Report this to the authors of the package that registers it.",
        )
    return made


def _factory(name: str) -> Callable[[Mapping[str, Any]], object]:
    found: Callable[[Mapping[str, Any]], object]
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        found = getattr(importlib.import_module(module), kind)
        return found
    registered = _registered()
    if name not in registered:
        raise InvalidInput(
            f"There is no memory provider {name!r}.",
            code="provider_unknown",
            hint=f"Use one of {', '.join(available_providers())}.",
        )
    try:
        found = registered[name].load()
    except Exception as exc:  # whatever the module of another package does when it is imported
        raise MemorydError(
            f"The memory provider {name!r} cannot be loaded: {type(exc).__name__}: {exc}",
            code="provider_broken",
            hint=f"Check the package that registers {registered[name].value}.",
        ) from exc
    return found


def _registered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # late: it takes longer than a window does

    return {point.name: point for point in entry_points(group=GROUP)}


def _parts() -> list[str]:
    return sorted(part for part in vars(MemoryProvider) if not part.startswith("_"))
