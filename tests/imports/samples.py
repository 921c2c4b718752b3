"""A small sample in each format that an import reads, written here by hand.

Each function writes into a folder and returns the path to import. Times are given, so that a test
can have recent conversations and old ones.
"""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OLD = 1_600_000_000.0  # of a conversation that has expired


@dataclass(frozen=True)
class Sample:
    """A sample, and what an import of it adds: facts and messages, and how many are too old."""

    write: Callable[[Path, float], Path]
    facts: int
    messages: int = 0
    old: int = 0


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lines(path: Path, *values: object) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def server_memory(folder: Path, at: float) -> Path:
    return lines(
        folder / "memory.jsonl",
        {"type": "entity", "name": "Anna", "entityType": "person",
         "observations": ["prefers tea", "Anna speaks Danish"]},
        {"type": "entity", "name": "billing", "entityType": "service", "observations": []},
        {"type": "relation", "from": "Anna", "to": "billing", "relationType": "works_on"},
    )  # fmt: skip


def turn(role: str, content: object, at: float, number: int, **more: Any) -> dict[str, Any]:
    return {
        "type": role, "uuid": f"0000000{number}-aaaa-4bbb-8ccc-000000000000",
        "sessionId": "11111111-2222-4333-8444-555555555555", "timestamp": iso(at),
        "cwd": "/nowhere/work/app", "message": {"role": role, "content": content}, **more,
    }  # fmt: skip


def claude_code(folder: Path, at: float) -> Path:
    """A folder of projects with one transcript, one of a subagent, and a memory folder."""
    project = folder / "projects" / "-nowhere-work-app"
    (project / "memory").mkdir(parents=True)
    (project / "s1" / "subagents").mkdir(parents=True)
    call = [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "a file"}]
    reminder = "<system-reminder>be brief</system-reminder>"
    lines(
        project / "s1.jsonl",
        {"type": "mode", "sessionId": "x"},
        turn("user", "Why does the import hang?", at, 1),
        turn("assistant", [{"type": "thinking", "thinking": "hm"}], at + 1, 2),
        turn("assistant", [{"type": "text", "text": "The pool is never closed."}], at + 2, 3),
        turn("assistant", call, at + 3, 4),
        turn("user", result, at + 4, 5),
        turn("user", f"{reminder}Fix it then.", at + 5, 6),
        turn("user", "<task-notification>done</task-notification>", at + 6, 7),
        turn("user", "They talked about a pool.", at + 7, 8, isCompactSummary=True),
        turn("user", "Long ago.", OLD, 9),
        turn("user", "Of a helper.", at, 10, isSidechain=True),
    )
    lines(project / "s1" / "subagents" / "agent-1.jsonl", turn("user", "Go.", at, 11))
    memory_files(project / "memory")
    return folder / "projects"


def memory_files(folder: Path) -> None:
    (folder / "MEMORY.md").write_text(
        "# Memory\n\n- [Tests](tests.md) — how to run them\n- The office is in Bonn.\n"
    )
    (folder / "tests.md").write_text(
        "---\nname: tests\ndescription: how to run tests\nmetadata:\n  node_type: memory\n"
        "  type: feedback\n  originSessionId: 11111111-2222-4333-8444-555555555555\n"
        "  modified: 2026-05-04T03:02:01.000Z\n---\nRun the tests with two workers.\n"
    )


def claude_memory(folder: Path, at: float) -> Path:
    memory = folder / "projects" / "-nowhere-work-app" / "memory"
    memory.mkdir(parents=True)
    memory_files(memory)
    return memory


CHATGPT_HIDDEN = {"is_visually_hidden_from_conversation": True}


def node(id: str, parent: str | None, role: str, text: str, at: float, **more: Any) -> Any:
    message = {
        "id": id, "author": {"role": role}, "create_time": at,
        "content": {"content_type": "text", "parts": [text]}, "metadata": {},
    } | more  # fmt: skip
    return {"id": id, "parent": parent, "children": [], "message": message}


def chatgpt_conversation(at: float, id: str = "c-1") -> dict[str, Any]:
    nodes = [
        {"id": "root", "parent": None, "children": ["m1"], "message": None},
        node(f"{id}-m1", "root", "system", "", at, metadata=CHATGPT_HIDDEN),
        node(f"{id}-m2", f"{id}-m1", "user", f"How do I prune roses in {id}?", at),
        node(f"{id}-m3", f"{id}-m2", "assistant", "A dropped answer.", at + 1),
        node(
            f"{id}-m4",
            f"{id}-m2",
            "assistant",
            f"User grows roses in {id}.",
            at + 1,
            recipient="bio",
        ),
        node(f"{id}-m5", f"{id}-m4", "tool", "Model set context updated.", at + 1),
        node(
            f"{id}-m6", f"{id}-m5", "assistant", f"In early spring, {id}.", at + 2, recipient="all"
        ),
    ]
    return {
        "title": "Roses", "create_time": at, "conversation_id": id, "current_node": f"{id}-m6",
        "mapping": {n["id"]: n for n in nodes},
    }  # fmt: skip


def chatgpt_spoken(at: float) -> dict[str, Any]:
    """A conversation with custom instructions, memories, speech, a file and a citation."""
    custom = {
        "content_type": "user_editable_context", "user_profile": "Preface:\n```I keep bees.```",
        "user_instructions": "Preface:\n```Answer briefly.```",
    }  # fmt: skip
    known = {
        "content_type": "model_editable_context",
        "model_set_context": "1. [2025-04-01]. Lives in Bonn.\n\n2. [2025-05-02]. Has a dog.",
    }
    spoken = {"content_type": "multimodal_text", "parts": [
        {"content_type": "audio_transcription", "text": "What is this?", "direction": "in"},
        {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1"},
        None,
    ]}  # fmt: skip
    cited = {"content_type": "text", "parts": ["A bee.\ue200cite\ue202turn0search1\ue201", None]}
    files = {"attachments": [{"name": "bee.jpg", "size": 3}, {"name": None}]}
    nodes = [
        {"id": "root", "parent": None, "children": [], "message": None},
        node("s-1", "root", "user", "", at, content=custom, metadata=CHATGPT_HIDDEN),
        node("s-2", "s-1", "assistant", "", at, content=known, create_time=None),
        node("s-3", "s-2", "user", "", at, content=spoken, metadata=files),
        node("s-4", "s-3", "assistant", "", at, content=cited, recipient="all"),
        node("s-5", "s-4", "assistant", "", at, content={"content_type": "text", "parts": None}),
    ]
    return {"title": None, "create_time": at, "id": "s", "current_node": "s-5",
            "mapping": {n["id"]: n for n in nodes}}  # fmt: skip


def chatgpt(folder: Path, at: float) -> Path:
    """A zip file with two files of conversations and others."""
    path = folder / "chatgpt.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations-000.json", json.dumps([chatgpt_conversation(at)]))
        old = [chatgpt_conversation(OLD, "c-2")]
        archive.writestr("conversations-001.json", json.dumps(old))
        archive.writestr("user.json", "{}")
        archive.writestr("chat.html", "<html></html>")
    return path


def claude(folder: Path, at: float) -> Path:
    """An unpacked folder."""
    export = folder / "data-2026"
    (export / "projects").mkdir(parents=True)
    messages = [
        {"uuid": "a-1", "sender": "human", "text": "Plan a trip.", "created_at": iso(at),
         "content": [{"type": "text", "text": "Plan a trip."}],
         "attachments": [{"file_name": "map.txt", "extracted_content": "..."}]},
        {"uuid": "a-2", "sender": "assistant", "text": "Gladly.", "created_at": iso(at + 1)},
        {"uuid": "a-3", "sender": "assistant", "text": "", "created_at": iso(at + 1)},
        {"uuid": "a-4", "sender": "assistant", "created_at": iso(at + 2), "content": [
            {"type": "tool_use", "name": "web_search", "input": {}}],
         "text": "```\nThis block is not supported on your current device yet.\n```"},
        {"uuid": "a-5", "sender": "human", "text": None, "created_at": iso(at + 3),
         "content": [{"type": "voice_note", "text": "By train."}], "files": None},
    ]  # fmt: skip
    conversation = {"uuid": "conv-1", "name": "Trip", "created_at": iso(at),
                    "summary": "They planned a trip.", "updated_at": iso(at + 9),
                    "project": {"uuid": "p-1"}, "chat_messages": messages}  # fmt: skip
    (export / "conversations.json").write_text(json.dumps([conversation], indent=1))
    about = "**Work**\n\nWrites software.\n\n**Home**\n\nHas two cats."
    memories = [{"conversations_memory": about, "project_memories": {"p-1": "Likes trains."}}]
    (export / "memories.json").write_text(json.dumps(memories))
    project = {"uuid": "p-1", "name": "Travel", "docs": [{"filename": "x", "content": "y"}],
               "description": "", "prompt_template": "Prefer trains to planes.",
               "created_at": iso(at), "updated_at": iso(at)}  # fmt: skip
    (export / "projects" / "p-1.json").write_text(json.dumps(project))
    (export / "users.json").write_text("[]")
    return export


def mem0_json(folder: Path, at: float) -> Path:
    path = folder / "mem0.json"
    path.write_text(json.dumps({"results": [
        {"id": "m0-1", "memory": "Likes green tea", "created_at": iso(at), "app_id": "kitchen",
         "updated_at": iso(at + 5), "categories": ["food"], "user_id": "ann",
         "metadata": {"type": "preference", "files": ["a.py"], "uses": 7}},
        {"id": "m0-2", "memory": "Lives in Oslo", "created_at": iso(at)},
    ]}))  # fmt: skip
    return path


def mem0_history(folder: Path, at: float) -> Path:
    """The folder `~/.mem0` with the tables of mem0 2.2: a memory that was changed, one that was
    deleted, one as it was added."""
    path = folder / "mem0" / "history.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, "
            "new_memory TEXT, event TEXT, created_at DATETIME, updated_at DATETIME, "
            "is_deleted INTEGER, actor_id TEXT, role TEXT);"
            "CREATE TABLE messages (id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, "
            "content TEXT, name TEXT, created_at DATETIME);"
        )
        was, now = iso(at), iso(at + 5)
        for event in (
            ("h1", "m-1", None, "Lives in Oslo", "ADD", was, was, 0, None, "user"),
            ("h2", "m-2", None, "Gone.", "ADD", was, was, 0, None, "user"),
            ("h3", "m-1", "Lives in Oslo", "Lives in Bergen", "UPDATE", was, now, 0, None, "user"),
            ("h4", "m-2", "Gone.", None, "DELETE", None, now, 1, None, None),
            ("h5", "m-3", None, "Likes green tea", "ADD", was, was, 0, "ann", None),
        ):
            marks = ", ".join("?" * 10)
            database.execute(f"INSERT INTO history VALUES ({marks})", event)
        database.commit()
    (path.parent / "config.json").write_text('{"user_id": "x"}')
    return path.parent


def mem0_markdown(folder: Path, at: float) -> Path:
    path = folder / "mem0-export-app-2026-01-01.md"
    block = (
        "---\nid: {id}\ncreated_at: {at}\ntype: decision\nconfidence: 0.9\nbranch: main\n"
        "files: a.py, b.py\ncategories: db\n---\n{text}\n\n"
    )
    path.write_text(
        block.format(id="m-1", at=iso(at), text="Use Postgres.\n---\nNot MySQL.")
        + block.format(id="m-2", at=iso(at), text="Two replicas.")
    )
    return path


def memory_service(folder: Path, at: float) -> Path:
    path = folder / "sqlite_vec.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute(
            "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT, "
            "tags TEXT, memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, "
            "deleted_at REAL)"
        )
        given = [
            ("a" * 64, "Port 8081.", "billing,port", "reference", '{"source": "x", "n": 2}', None),
            ("b" * 64, "Deploy on Mondays.", "", "decision", "{}", None),
            ("c" * 64, "Gone.", "", "note", "{}", at),
        ]
        for hash, text, tags, type, about, deleted in given:
            row = (hash, text, tags, type, about, at, at + 9, deleted)
            columns = "content_hash, content, tags, memory_type, metadata, created_at, updated_at, "
            marks = ", ".join("?" * 8)
            database.execute(f"INSERT INTO memories ({columns} deleted_at) VALUES ({marks})", row)
        database.commit()
    return path


def memory_service_json(folder: Path, at: float) -> Path:
    path = folder / "export.json"
    memories = [
        {"content": "Port 8081.", "content_hash": "a" * 64, "tags": ["billing"], "created_at": at,
         "updated_at": at, "memory_type": "reference", "metadata": {}, "store": "default"},
    ]  # fmt: skip
    path.write_text(json.dumps({"export_metadata": {"total_memories": 1}, "memories": memories}))
    return path


def mempalace(folder: Path, at: float) -> Path:
    palace = folder / "palace-export"
    (palace / "wing_app").mkdir(parents=True)
    (palace / "index.md").write_text("# Palace Export — 2026-01-01\n\n| Wing | Rooms |\n")
    drawer = (
        "## {id}\n\n> {text}\n\n| Field | Value |\n|-------|-------|\n| Source | notes.md |\n"
        "| Filed | {at} |\n| Added by | unknown |\n\n---\n\n"
    )
    (palace / "wing_app" / "db.md").write_text(
        "# wing_app / db\n\n"
        + drawer.format(id="drawer_1", at=iso(at), text="Use Postgres.\n> \n> ## not a heading")
        + drawer.format(id="drawer_2", at=iso(at), text="Two replicas.")
    )
    return palace


def claude_mem(folder: Path, at: float) -> Path:
    path = folder / "claude-mem.db"
    stamp = int(at * 1000)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, "
            "memory_session_id TEXT, project TEXT);"
            "CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project "
            "TEXT, text TEXT, type TEXT, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, "
            "concepts TEXT, files_read TEXT, files_modified TEXT, created_at_epoch INTEGER);"
            "CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, "
            "project TEXT, request TEXT, investigated TEXT, learned TEXT, completed TEXT, "
            "next_steps TEXT, notes TEXT, files_read TEXT, files_edited TEXT, "
            "created_at_epoch INTEGER);"
            "CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, "
            "prompt_number INTEGER, prompt_text TEXT, created_at_epoch INTEGER);"
        )
        database.execute("INSERT INTO sdk_sessions VALUES (1, 'c-1', 'm-1', 'app')")
        database.execute(
            "INSERT INTO observations VALUES (1, 'm-1', 'app', NULL, 'bugfix', 'Pool leak', "
            "'In the importer', ?, 'The pool was never closed.', ?, ?, ?, ?)",
            ('["Close it in finally"]', '["gotcha"]', '["b.py"]', '["a.py"]', stamp),
        )
        database.execute(
            "INSERT INTO session_summaries VALUES (1, 'm-1', 'app', 'Fix the leak', NULL, "
            "'Pools leak', 'Closed it', NULL, NULL, '[]', '[\"a.py\"]', ?)", (stamp,),
        )  # fmt: skip
        prompts = [(1, 1, "Fix the leak.", stamp), (2, 2, "Long ago.", int(OLD * 1000))]
        for id, number, text, when in prompts:
            values = (id, "c-1", number, text, when)
            database.execute("INSERT INTO user_prompts VALUES (?, ?, ?, ?, ?)", values)
        database.commit()
    return path


def basic_memory(folder: Path, at: float) -> Path:
    notes = folder / "basic-memory"
    (notes / "specs").mkdir(parents=True)
    (notes / "specs" / "Billing service.md").write_text(
        "---\ntitle: Billing service\ntype: note\npermalink: specs/billing-service\n"
        "tags:\n- billing\n---\n# Billing service\n\nIt sends invoices.\n\n## Observations\n"
        "- [decision] Uses Postgres #db (since 2025)\n- [00:12] said on a call\n- [ ] a task\n\n"
        "## Relations\n- depends_on [[Ledger]]\n"
    )
    (notes / "readme.md").write_text("No head.\n")
    return notes


SAMPLES = {
    "server-memory": Sample(server_memory, facts=4),
    "claude-code": Sample(claude_code, facts=3, messages=3, old=1),
    "claude-memory": Sample(claude_memory, facts=2),
    "chatgpt": Sample(chatgpt, facts=2, messages=2, old=2),
    "claude": Sample(claude, facts=5, messages=3),
    "mem0": Sample(mem0_json, facts=2),
    "mem0 history": Sample(mem0_history, facts=2),
    "mem0 markdown": Sample(mem0_markdown, facts=2),
    "mcp-memory-service": Sample(memory_service, facts=2),
    "mcp-memory-service json": Sample(memory_service_json, facts=1),
    "mempalace": Sample(mempalace, facts=2),
    "claude-mem": Sample(claude_mem, facts=2, messages=1, old=1),
    "basic-memory": Sample(basic_memory, facts=3),
}
