"""A typed client of the daemon, for agents and robots. Standard library only."""

from memoryd.client.client import Client
from memoryd.client.errors import DaemonLost, MemoryToolError
from memoryd.client.memory_tool import AsyncMemoryTool, MemoryTool
from memoryd.client.recalled import Recalled
from memoryd.client.sync_client import SyncClient
from memoryd.errors import DaemonUnavailable, WrongDaemon

__all__ = [
    "AsyncMemoryTool",
    "Client",
    "DaemonLost",
    "DaemonUnavailable",
    "MemoryTool",
    "MemoryToolError",
    "Recalled",
    "SyncClient",
    "WrongDaemon",
]
