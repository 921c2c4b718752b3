"""The providers `daemon` and `daemon-lexical`: the memory that agents share, behind a socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from memoryd import places
from memoryd.client.client import Client
from memoryd.client.providers.protocol import RECENT_TURNS, check_config
from memoryd.client.recalled import Recalled
from memoryd.client.session_types import TurnDetails
from memoryd.client.types import ClientOptions, Message
from memoryd.errors import InvalidInput

IDENTITY = "identity"
OPTIONS = {"socket", IDENTITY, *ClientOptions.__annotations__}
PLACES = {"socket", "data_dir", "config", "serves", "tcp"}  # options that say which daemon is meant
BACKEND = "embedding.backend"
NO_MODEL = "none"


class DaemonProvider:
    """Keeps every turn in the daemon, which is started if none runs."""

    name = "daemon"

    def __init__(self, config: Mapping[str, Any]) -> None:
        """The options of `Client`, and `identity`: who wakes up, unless `on_wake` says."""
        check_config(self.name, config, OPTIONS)
        given = {key: value for key, value in config.items() if key != IDENTITY}
        self._identity: str | None = config.get(IDENTITY)
        self._client = Client(**({"start": True} | given))

    async def init(self) -> None:
        """Connect. Raises DaemonUnavailable."""
        await self._client.__aenter__()

    async def save_turn(self, role: str, content: str, **details: Unpack[TurnDetails]) -> None:
        await self._client.add_turn(role, content, **details)

    async def recall(self, hint: str | None = None, max_tokens: int | None = None) -> Recalled:
        return await self._client.recall(None, hint, max_tokens, identity=self._identity)

    async def turn_count(self) -> int:
        return (await self._client.sessions.read(limit=1))["turns"]

    async def recent_turns(self, limit: int = RECENT_TURNS) -> list[Message]:
        if limit < 1:
            return []
        return (await self._client.sessions.read(limit=limit))["messages"]

    async def on_wake(self, identity: str | None = None) -> Recalled:
        self._identity = identity or self._identity
        return await self._client.sessions.wake(self._identity)

    async def on_sleep(self) -> None:
        await self._client.sessions.sleep()

    async def close(self) -> None:
        """Close the connection. The daemon goes on."""
        await self._client.__aexit__(None, None, None)

    async def get_working_memory(self) -> str:
        return (await self._client.working_memory(self._identity))["content"]


class LexicalProvider(DaemonProvider):
    """The same with a daemon that loads no model and searches by words: it starts faster and needs
    less RAM. Unless a daemon is named it has a data directory of its own, because every other
    client of the daemon would search by words too."""

    name = "daemon-lexical"

    def __init__(self, config: Mapping[str, Any]) -> None:
        place = {} if PLACES & config.keys() else {"data_dir": _own_data_dir()}
        settings = {**config.get("settings", {}), BACKEND: NO_MODEL}
        super().__init__({**config, **place, "settings": settings})

    async def init(self) -> None:
        """Connect. Raises InvalidInput if the daemon that runs uses a model."""
        await super().init()
        await self._client.projects.list()  # answers only after the store is open
        status = await self._client.status()
        if status.get("embedding_backend") != NO_MODEL:
            await self.close()
            raise InvalidInput(
                f"The daemon of {status['data_dir']} runs with a model.",
                code="daemon_has_model",
                hint=f"Name another data_dir, or set {BACKEND} to {NO_MODEL} and restart it.",
            )


def _own_data_dir() -> str:
    default = places.data_dir()
    return str(default.with_name(f"{default.name}-lexical"))
