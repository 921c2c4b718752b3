"""The MCP surface by the official client: both eras, every door."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.daemons import Daemon
from tests.doors.clients import connected

ERAS = ["legacy", "2026-07-28", "auto"]
NAMES = [
    "search_memories",
    "store_memory",
    "forget_memory",
    "add_turn",
    "get_context",
    "clear_context",
]


@pytest.fixture(params=["unix", "stdio", "http"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_works_in_both_eras_on_every_door(
    daemon: Daemon, door: str, era: str, token: str
) -> None:
    text = f"the blue notebook of {door} and {era} lies under the piano"
    async with connected(daemon, door, era, token) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == NAMES
        stored = await client.call_tool("store_memory", {"content": text, "memory_type": ""})
        memory = stored.structured_content
        assert memory is not None
        assert (memory["content"], memory["type"], memory["duplicate"]) == (text, "fact", False)
        again = (await client.call_tool("store_memory", {"content": text})).structured_content
        assert again is not None
        assert again["duplicate"]
        assert again["id"] == memory["id"]
        page = (await client.call_tool("search_memories", {"query": text})).structured_content
        assert page is not None
        assert page["results"][0]["id"] == memory["id"]
        assert page["results"][0]["score"] > 0.99
        session = f"{door}-{era}"
        for role in ("user", "assistant"):
            turn = {"role": role, "content": f"{role} says", "session_id": session}
            await client.call_tool("add_turn", turn)
        window = await client.call_tool("get_context", {"session_id": session})
        assert window.structured_content is not None
        assert [m["role"] for m in window.structured_content["messages"]] == ["user", "assistant"]
        await client.call_tool("clear_context", {"session_id": session})
        gone = await client.call_tool("forget_memory", {"memory_id": memory["id"]})
        assert gone.structured_content == {"success": True, "id": memory["id"]}


@pytest.mark.parametrize("era", ERAS)
async def test_resources_and_prompt(daemon: Daemon, door: str, era: str, token: str) -> None:
    async with connected(daemon, door, era, token) as client:
        resources = await client.list_resources()
        assert [str(r.uri) for r in resources.resources] == ["memory://status"]
        templates = await client.list_resource_templates()
        assert [t.uri_template for t in templates.resource_templates] == [
            "memory://memory/{id}",
            "memory://session/{id}",
        ]
        status = await read(client, "memory://status")
        assert status["health"] == "ready"
        stored = await client.call_tool("store_memory", {"content": "x", "name": "by name"})
        assert stored.structured_content is not None
        found = await read(client, f"memory://memory/{stored.structured_content['id']}")
        assert found["content"] == "x"
        assert (await read(client, "memory://session/none"))["messages"] == []
        with pytest.raises(MCPError, match="not_found"):
            await client.read_resource("memory://memory/nobody")
        prompts = await client.list_prompts()
        assert [p.name for p in prompts.prompts] == ["use_memory"]
        prompt = await client.get_prompt("use_memory")
        assert "search_memories" in prompt.messages[0].content.text  # type: ignore[union-attr]


async def read(client: Client, uri: str) -> Any:
    found = await client.read_resource(uri)
    return json.loads(found.contents[0].text)  # type: ignore[union-attr]


async def test_times_are_iso_8601_with_a_zone(daemon: Daemon) -> None:
    made = daemon.tool("store_memory", content="timed", memory_type="conversation")
    for key in ("created_at", "expires_at"):
        assert datetime.fromisoformat(made[key]).tzinfo is not None


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("store_memory", {"content": "  "}, "content_empty"),
        ("store_memory", {}, "content_empty"),
        ("store_memory", {"content": None}, "content_empty"),
        ("store_memory", {"content": 5}, "content_not_text"),
        ("store_memory", {"content": "x", "memory_type": "rumour"}, "type_unknown"),
        ("store_memory", {"content": "x", "metadata": "a"}, "metadata_invalid"),
        ("store_memory", {"content": "x", "metadta": {}}, "argument_unknown"),
        ("store_memory", {"content": "x", "expires_at": "1999-01-01"}, "expires_at_invalid"),
        ("search_memories", {"query": "x", "limit": 0}, "limit_invalid"),
        ("search_memories", {"query": "x", "limit": "many"}, "limit_invalid"),
        ("search_memories", {"query": ""}, "query_empty"),
        ("search_memories", {"query": "x", "since": "soon"}, "since_invalid"),
        ("add_turn", {"role": "king", "content": "x"}, "role_unknown"),
        ("add_turn", {"content": "x"}, "role_unknown"),
        ("get_context", {"max_turns": 0}, "max_turns_invalid"),
        ("forget_memory", {"memory_id": 5}, "memory_id_invalid"),
    ],
)
async def test_errors_are_tool_errors_with_code_sentence_and_no_traceback(
    daemon: Daemon, name: str, arguments: dict[str, Any], code: str
) -> None:
    answer = daemon.call("tools/call", name=name, arguments=arguments)
    assert answer["isError"] is True
    error = answer["_meta"]["memoryd/error"]
    assert error["code"] == code
    assert code in answer["content"][0]["text"]
    assert "Traceback" not in json.dumps(answer)


async def test_an_argument_too_many_is_refused_with_a_hint_that_helps(daemon: Daemon) -> None:
    answer = daemon.call("tools/call", name="audit", arguments={"deep": True})
    error = answer["_meta"]["memoryd/error"]
    assert (error["code"], error["hint"]) == ("argument_unknown", "Call it without arguments.")


async def test_forgetting_the_unknown_is_false_and_no_error(daemon: Daemon) -> None:
    answer = daemon.call("tools/call", name="forget_memory", arguments={"memory_id": "nobody"})
    assert answer["structuredContent"] == {"success": False, "id": "nobody"}


async def test_empty_and_null_mean_not_given(daemon: Daemon) -> None:
    given = {"metadata": None, "name": "", "session_id": "", "expires_at": None, "pinned": None}
    made = daemon.tool("store_memory", content="plain as plain can be", **given)
    assert "name" not in made
    page = daemon.tool(
        "search_memories", query="plain as plain can be", memory_type="", limit=None, since=""
    )
    assert page["results"][0]["id"] == made["id"]
