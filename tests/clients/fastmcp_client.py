"""fastmcp's client, in its own environment: starts the server that argv names, as users do.

Run: python fastmcp_client.py COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

CONTENT = "The charging dock is behind the kitchen door."


async def main(command: str, *arguments: str) -> None:
    async with Client(StdioTransport(command, list(arguments))) as client:
        tools = [tool.name for tool in await client.list_tools()]
        stored = await client.call_tool("store_memory", {"content": CONTENT})
        page = await client.call_tool("search_memories", {"query": "charging dock kitchen"})
        status = await client.read_resource("memory://status")
    found = [hit["content"] for hit in page.structured_content["results"]]
    told = {"tools": tools, "stored": stored.structured_content["content"], "found": found}
    sys.stdout.write(json.dumps(told | {"pid": json.loads(status[0].text)["pid"]}))


asyncio.run(main(*sys.argv[1:]))
