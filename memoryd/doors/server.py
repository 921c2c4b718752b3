"""The MCP server: tools, resources and a prompt on one low-level server for all doors.

The low-level server, because then the schemas are exactly ours, and because the high-level one
answers bad arguments with the long errors of its validator.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.types as types
import structlog
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from memoryd import __version__
from memoryd.doors import render
from memoryd.doors.calls import Call
from memoryd.doors.daemon_operations import DaemonOperations
from memoryd.doors.readiness import Readiness
from memoryd.doors.resources import (
    JSON,
    MAX_URI,
    PROMPT,
    PROMPT_TEXT,
    STATUS_RESOURCE,
    TEMPLATES,
    Resources,
    unknown_prompt,
)
from memoryd.doors.schemas import INSTRUCTIONS
from memoryd.doors.status import Status
from memoryd.doors.tools import Tools, UnknownTool
from memoryd.errors import InvalidInput, MemorydError, NotFound, OutOfMemory
from memoryd.toolsets import DEFAULT

log = structlog.get_logger()
UNKNOWN = "unknown"  # logged in place of a name that is no tool, which may be any text
RESUMED = frozenset({"purge"})  # a stop does not wait for these: the next start goes on with them
RESOURCE_NOT_FOUND = -32002  # up to 2025-11-25; from 2026-07-28 on it is INVALID_PARAMS


class _OwnersCall:
    """The context of a call that came by no protocol."""

    request = None
    meta = None


class McpServer:
    """Tools, resources and prompt, independent of the door."""

    def __init__(
        self,
        readiness: Readiness,
        status: Status,
        toolsets: Sequence[str] = DEFAULT,
        operations: DaemonOperations | None = None,
    ) -> None:
        """`toolsets`: those of a client that asks for none. `operations`: on the daemon as a whole,
        for its owner."""
        self._readiness = readiness
        self.operations = operations or DaemonOperations(readiness, status)
        self._resources = Resources(readiness, status)
        self._tools = Tools(readiness, toolsets, self.operations)
        self.status = status
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
            on_completion=self._complete,
        )

    async def drained(self, but: int = 0) -> None:
        """Wait until no more than `but` calls are running."""
        while self._running > but:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        try:
            return types.ListToolsResult(tools=self._tools.listed(ctx))
        except InvalidInput as exc:
            raise _protocol_error(types.INVALID_PARAMS, exc) from exc

    async def _call_tool(
        self, ctx: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async with self._counted(params.name) as call:
            return await self._answer(params, ctx, call)

    @asynccontextmanager
    async def _counted(self, name: str) -> AsyncIterator[Call]:
        """Time a call, and let a stop wait for it, unless the next start goes on with it."""
        counted = name not in RESUMED
        self._running += counted
        try:
            with self.status.calls.timed(name if self._tools.has(name) else UNKNOWN) as call:
                yield call
        finally:
            self._running -= counted
            self._idle.set()

    async def call_as_owner(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of a tool or of an operation for the owner, for the page. Raises MemorydError.
        The door must have checked that it is the owner's."""
        async with self._counted(name) as call:
            return await self._run(name, arguments, _OwnersCall(), call)

    async def map_as_owner(self, revision: str) -> bytes:
        """The points of a revision of the map, for the page, which would be a third larger as text.
        Raises MemorydError. The door must have checked that it is the owner's."""
        async with self._counted("map"):
            return (await self._readiness.engine()).map.blob(revision)

    async def _answer(
        self, params: types.CallToolRequestParams, ctx: Any, call: Call
    ) -> types.CallToolResult:
        """The tool's answer or its error."""
        try:
            found = await self._run(params.name, params.arguments, ctx, call)
        except UnknownTool as exc:
            raise _protocol_error(types.INVALID_PARAMS, exc) from exc
        except MemorydError as exc:
            return _refusal(exc)
        text = types.TextContent(type="text", text=json.dumps(found, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=found)

    async def _run(
        self, name: str, arguments: dict[str, Any] | None, ctx: Any, call: Call
    ) -> dict[str, Any]:
        """The tool's answer; `call` takes the outcome. Raises MemorydError, whatever fails."""
        call.session = _text((arguments or {}).get("session_id"))
        try:
            found = await self._tools.call(name, arguments, ctx)
        except MemorydError as exc:
            call.outcome = exc.code
            call.is_fault = not isinstance(exc, InvalidInput | NotFound)
            raise
        except MemoryError as exc:
            log.error("tool_failed", tool=name, error="MemoryError", at=_place(exc))
            told: MemorydError = OutOfMemory()
        except Exception as exc:
            log.error("tool_failed", tool=name, error=type(exc).__name__, at=_place(exc))
            told = MemorydError(f"memoryd failed with {type(exc).__name__}.")
        else:
            call.counts, call.ids = _counts(found), _ids(found)
            call.session = _text(found.get("session_id")) or call.session
            return found
        call.outcome = told.code
        call.is_fault = True
        raise told

    async def _list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[STATUS_RESOURCE])

    async def _list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def _read_resource(
        self, ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if len(uri) > MAX_URI:
            told = NotFound(f"There is nothing at a URI of more than {MAX_URI} characters.")
            raise _protocol_error(types.INVALID_PARAMS, told, uri=uri[:100])
        try:
            found = await self._resources.read(uri, ctx)
        except NotFound as exc:
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
            raise _protocol_error(code, exc, uri=uri) from exc
        except InvalidInput as exc:
            raise _protocol_error(types.INVALID_PARAMS, exc, uri=uri) from exc
        except Exception as exc:
            raise _failure("resource_failed", exc, uri=uri) from exc
        text = json.dumps(found, ensure_ascii=False)
        contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def _complete(
        self, ctx: Any, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        try:
            return types.CompleteResult(completion=await self._resources.complete(params))
        except InvalidInput as exc:
            raise _protocol_error(types.INVALID_PARAMS, exc) from exc
        except Exception as exc:
            raise _failure("completion_failed", exc) from exc

    async def _list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[PROMPT])

    async def _get_prompt(
        self, ctx: Any, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != PROMPT.name:
            raise _protocol_error(types.INVALID_PARAMS, unknown_prompt(params.name))
        text = types.TextContent(type="text", text=PROMPT_TEXT)
        message = types.PromptMessage(role="user", content=text)
        return types.GetPromptResult(description=PROMPT.description, messages=[message])


def _counts(answer: dict[str, Any]) -> dict[str, int]:
    """The lengths of the lists in an answer, for the log."""
    return {key: len(value) for key, value in answer.items() if isinstance(value, list)}


def _ids(answer: dict[str, Any]) -> list[str]:
    """The ids of the memories that an answer stored or found."""
    found = answer.get("results", answer.get("memories"))
    shown = found if isinstance(found, list) else [answer]
    ids = (one.get("id") for one in shown if isinstance(one, dict))
    return [id for id in ids if isinstance(id, str)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _place(exc: Exception) -> str:
    """File and line of an exception, without its text, which can quote memories."""
    frames = traceback.extract_tb(exc.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _refusal(exc: MemorydError) -> types.CallToolResult:
    """A tool error: a text for the model, and code, message and hint as data for programs."""
    text = types.TextContent(type="text", text=render.error_text(exc))
    meta = {"memoryd/error": render.error(exc)}
    return types.CallToolResult(content=[text], is_error=True, _meta=meta)


def _protocol_error(code: int, exc: MemorydError, **data: str) -> MCPError:
    """A JSON-RPC error with the same text and data."""
    return MCPError(code, render.error_text(exc), {**data, "memoryd/error": render.error(exc)})


def _failure(event: str, exc: Exception, **data: str) -> MCPError:
    """An internal error, logged. Of a foreign exception only the type is told."""
    if isinstance(exc, MemorydError):
        log.info(event, code=exc.code)
        return _protocol_error(types.INTERNAL_ERROR, exc, **data)
    log.error(event, error=type(exc).__name__, at=_place(exc))
    told = MemorydError(f"memoryd failed with {type(exc).__name__}.")
    return _protocol_error(types.INTERNAL_ERROR, told, **data)
