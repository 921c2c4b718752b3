"""The MCP server: tools, resources and a prompt on one low-level server for all doors.

The low-level server because its schemas are ours to the letter, and because the convenient one
turns bad arguments into a page of its validator's prose.
"""

from __future__ import annotations

import json
import traceback
from typing import Any
from urllib.parse import unquote

import anyio
import mcp.types as types
import structlog
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from memoryd import __version__
from memoryd.doors import render
from memoryd.doors.gate import Gate
from memoryd.doors.prompts import PROMPT, PROMPT_TEXT
from memoryd.doors.schemas import INSTRUCTIONS, TOOLS
from memoryd.doors.status import Status
from memoryd.doors.tools import Tools
from memoryd.errors import MemorydError, NotFound, OutOfMemory

log = structlog.get_logger()
JSON = "application/json"
STATUS, MEMORY, SESSION = "memory://status", "memory://memory/", "memory://session/"
UNKNOWN_RESOURCE = -32002


class McpServer:
    """What clients can ask for, independent of how they are connected."""

    def __init__(self, gate: Gate, status: Status) -> None:
        self._gate = gate
        self._status = status
        self._tools = Tools(gate)
        self._running = 0
        self._idle = anyio.Event()
        self.lowlevel: Server[Any] = Server(
            "memoryd",
            version=__version__,
            title="memoryd",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def drained(self) -> None:
        """Wait until no call is running."""
        while self._running:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(TOOLS))

    async def _call_tool(
        self, ctx: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._running += 1
        try:
            found = await self._tools.call(params.name, params.arguments)
        except MemorydError as exc:
            log.info("tool_refused", code=exc.code)
            return _refusal(exc)
        except MemoryError as exc:
            log.error("tool_failed", tool=params.name, error="MemoryError", at=_place(exc))
            return _refusal(OutOfMemory())
        except Exception as exc:
            log.error("tool_failed", tool=params.name, error=type(exc).__name__, at=_place(exc))
            return _refusal(MemorydError(f"memoryd failed with {type(exc).__name__}."))
        finally:
            self._running -= 1
            self._idle.set()
        text = types.TextContent(type="text", text=json.dumps(found, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=found)

    async def _list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        status = types.Resource(
            uri=STATUS, name="status", description="Health and counts", mime_type=JSON
        )
        return types.ListResourcesResult(resources=[status])

    async def _list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        wanted = {"memory": ("One memory", MEMORY), "session": ("A session's window", SESSION)}
        made = [
            types.ResourceTemplate(
                uri_template=f"{base}{{id}}", name=name, description=text, mime_type=JSON
            )
            for name, (text, base) in wanted.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=made)

    async def _read_resource(
        self, ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            found = await self._resource(uri)
        except MemorydError as exc:
            data = {"uri": uri, "memoryd/error": render.error(exc)}
            raise MCPError(UNKNOWN_RESOURCE, render.error_text(exc), data) from exc
        except Exception as exc:
            log.error("resource_failed", error=type(exc).__name__, at=_place(exc))
            text = f"memoryd failed with {type(exc).__name__}."
            raise MCPError(types.INTERNAL_ERROR, text, {"uri": uri}) from exc
        text = json.dumps(found, ensure_ascii=False)
        contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _resource(self, uri: str) -> dict[str, Any]:
        if uri == STATUS:
            return await self._status.read()
        engine = await self._gate.engine()
        if uri.startswith(SESSION):
            window = await engine.context_window(_named(uri, SESSION))
            return render.window(window, engine.zone)
        if uri.startswith(MEMORY) and (found := await engine.get(_named(uri, MEMORY))):
            return render.recalled(found, engine.zone)
        raise NotFound(f"There is nothing at {uri[:200]}.")

    async def _list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[PROMPT])

    async def _get_prompt(
        self, ctx: Any, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != PROMPT.name:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name[:100]!r}.")
        text = types.TextContent(type="text", text=PROMPT_TEXT)
        message = types.PromptMessage(role="user", content=text)
        return types.GetPromptResult(description=PROMPT.description, messages=[message])


def _named(uri: str, base: str) -> str:
    """The id or name at the end of a URI, where it is percent-encoded."""
    return unquote(uri.removeprefix(base))


def _place(exc: Exception) -> str:
    """Where it happened, without what it said: an exception's text can hold memories."""
    frames = traceback.extract_tb(exc.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _refusal(exc: MemorydError) -> types.CallToolResult:
    """A tool error: words for the model, and the parts of it for a program."""
    text = types.TextContent(type="text", text=render.error_text(exc))
    meta = {"memoryd/error": render.error(exc)}
    return types.CallToolResult(content=[text], is_error=True, _meta=meta)
