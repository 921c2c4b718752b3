"""Every verb of the command line with its flags, and the function that runs it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from memoryd import __version__
from memoryd.cli import options as values
from memoryd.cli.hook_verbs import add_hook_verbs
from memoryd.cli.options import Parser
from memoryd.formats import FORMATS, IMPORT_FORMATS
from memoryd.toolsets import TOOLSETS


def parser() -> Parser:
    """Every verb with its flags."""
    top = Parser(
        prog="memoryd",
        description="The one memory that every AI agent on a machine shares.",
        epilog="`memoryd` alone shows what to do first; `memoryd VERB --help` explains a verb.",
    )
    top.add_argument("--version", action="version", version=f"memoryd {__version__}")
    top.set_defaults(verb="memoryd.cli.welcome:welcome")
    _add_places(top, default=None)
    verbs = top.add_subparsers(metavar="VERB")
    _add_daemon_verbs(verbs)
    _add_memory_verbs(verbs)
    _add_managing_verbs(verbs)
    _add_project_verbs(verbs)
    _add_note_verbs(verbs)
    _add_session_verbs(verbs)
    add_hook_verbs(verbs, _add, _add_json)
    _add_store_verbs(verbs)
    _add_governing_verbs(verbs)
    _add_machine_verbs(verbs)
    return top


Verbs = Any  # argparse does not export the type


def _add_daemon_verbs(verbs: Verbs) -> None:
    serve = _add(verbs, "serve", "daemon:serve", "run the daemon in the foreground")
    serve.add_argument("--log-file", type=Path, metavar="FILE", help="log to a file, not to stderr")
    mcp = _add(verbs, "mcp", "daemon:mcp", "serve an MCP client on stdin and stdout")
    mcp.add_argument(
        "--tools", metavar="LIST", help=f"toolsets such as {','.join(TOOLSETS)}, or all"
    )
    mcp.add_argument(
        "--project", metavar="NAME", help="without it, that of the git checkout; empty: none"
    )
    start = _add(verbs, "start", "start:start", "start the daemon in the background")
    restart = _add(verbs, "restart", "start:restart", "stop the daemon and start it again")
    status = _add(verbs, "status", "daemon:status", "show what the daemon does and holds")
    stop = _add(verbs, "stop", "daemon:stop", "stop the daemon once its calls are done")
    stop.add_argument("--kill", action="store_true", help="kill a daemon that hangs")
    logs = _add(verbs, "logs", "logs:logs", "show the daemon's log")
    logs.add_argument(
        "-n", "--lines", type=values.count, default=50, metavar="N", help="how many lines"
    )
    logs.add_argument(
        "--level", choices=values.LOG_LEVELS, metavar="LEVEL", help="only this level and above"
    )
    logs.add_argument("-f", "--follow", action="store_true", help="show new lines as they come")
    _add_json(start, restart, status, stop, logs)


def _add_memory_verbs(verbs: Verbs) -> None:
    store = _add(verbs, "store", "memories:store", "store a memory")
    store.add_argument("content", metavar="CONTENT", help="the text; - reads it from stdin")
    store.add_argument("--type", metavar="TYPE", help="fact (default), conversation or context")
    store.add_argument("--name", help="a name to get, replace or forget it by")
    store.add_argument("--expires-at", metavar="TIME", help="when to forget it, ISO 8601")
    store.add_argument("--pinned", action="store_true", default=None, help="never expires")
    store.add_argument(
        "--project", metavar="NAME", help="into this one; without it, that of the git checkout"
    )
    store.add_argument("--shared", action="store_true", default=None, help="for all projects")
    search = _add(verbs, "search", "memories:search", "find memories by meaning")
    search.add_argument(
        "query",
        metavar="QUERY",
        nargs="*",
        help="what to look for, in plain words; without it, the newest that match the filter",
    )
    search.add_argument("--limit", type=values.whole, metavar="N", help="how many results at most")
    search.add_argument(
        "--min-score", type=values.number, metavar="SCORE", help="hide worse, 0 to 1"
    )
    search.add_argument(
        "--max-tokens", type=values.whole, metavar="N", help="size of the whole answer"
    )
    search.add_argument(
        "--include-superseded", action="store_true", default=None, help="also what is superseded"
    )
    search.add_argument("--mode", metavar="MODE", help="words: by words alone, and all that match")
    search.add_argument("--explain", action="store_true", default=None, help="show the reasons")
    _add_filter(search)
    _add_metadata(store)
    store.add_argument("--session", metavar="ID", help="the session it belongs to")
    get = _add(verbs, "get", "memories:get", "show one memory")
    get.add_argument("memory", metavar="ID_OR_NAME")
    _add_json(store, search, get)


def _add_managing_verbs(verbs: Verbs) -> None:
    listed = _add(verbs, "list", "manage:list_memories", "list memories, page by page")
    listed.add_argument(
        "--order", metavar="ORDER", help="newest (default), oldest, expiring, most_used, least_sure"
    )
    listed.add_argument("--limit", type=values.whole, metavar="N", help="how many on a page")
    listed.add_argument("--cursor", metavar="TEXT", help="where the next page begins")
    _add_filter(listed)
    update = _add(verbs, "update", "manage:update", "change a memory: only what is given")
    update.add_argument("memory", metavar="ID_OR_NAME")
    update.add_argument("--content", metavar="TEXT", help="the new text; - reads it from stdin")
    update.add_argument("--type", metavar="TYPE", help="fact, conversation or context")
    update.add_argument("--name", help="a name to get, replace or forget it by")
    update.add_argument("--expires-at", metavar="TIME", help="when to forget it, ISO 8601")
    update.add_argument(
        "--pinned", action=argparse.BooleanOptionalAction, help="never expires, or does again"
    )
    _add_metadata(update)
    update.add_argument("--replace-metadata", action="store_true", help="remove all other metadata")
    update.add_argument(
        "--clear", action="append", metavar="FIELD", help="name or expires_at; may be repeated"
    )
    pin = _add(verbs, "pin", "manage:pin", "keep memories for ever")
    unpin = _add(verbs, "unpin", "manage:unpin", "let memories expire as their type says")
    for verb in (pin, unpin):
        verb.add_argument("memories", metavar="ID_OR_NAME", nargs="+")
    edit = _add(verbs, "edit", "edit:edit", "change the text of a memory in your editor")
    edit.add_argument("memory", metavar="ID_OR_NAME")
    chain = _add(
        verbs, "chain", "manage:chain", "show what a memory supersedes and what supersedes it"
    )
    chain.add_argument("memory", metavar="ID_OR_NAME")
    _add_json(listed, update, pin, unpin, edit, chain)
    _add_review(verbs)


def _add_review(verbs: Verbs) -> None:
    review = _add(verbs, "review", "review:review", "show what needs a review, or judge a memory")
    review.add_argument(
        "action",
        nargs="?",
        choices=("confirm", "correct", "reject", "flag"),
        metavar="ACTION",
        help="confirm: it is right; correct: --content is right; reject: forget it; flag: review it"
        " later; without one, show what needs a review",
    )
    review.add_argument("memory", metavar="ID_OR_NAME", nargs="?")
    review.add_argument("--content", metavar="TEXT", help="the right text; - reads it from stdin")
    review.add_argument("--reason", metavar="TEXT", help="why it should be reviewed")
    review.add_argument("--limit", type=values.whole, metavar="N", help="how many on a page")
    review.add_argument("--cursor", metavar="TEXT", help="where the next page begins")
    _add_json(review)


def _add_note_verbs(verbs: Verbs) -> None:
    notes = _add(verbs, "notes", "notes:list_notes", "keep texts under unique names")
    actions = notes.add_subparsers(metavar="ACTION", help="without it: list")
    add = _add(actions, "add", "notes:add", "add a note under a new name")
    read = _add(actions, "read", "notes:read", "show a note")
    write = _add(actions, "write", "notes:write", "replace the content of a note")
    rename = _add(actions, "rename", "notes:rename", "give a note another name")
    alias = _add(actions, "alias", "notes:alias", "give a note one more name")
    unalias = _add(actions, "unalias", "notes:unalias", "take an alias away from its note")
    remove = _add(actions, "remove", "notes:remove", "delete a note with its aliases")
    listed = _add(actions, "list", "notes:list_notes", "list the notes, oldest first")
    for action in (add, read, write, rename, alias, remove):
        action.add_argument("name", metavar="NAME", help="in any case; an alias means its note")
    for action in (add, write):
        action.add_argument("content", metavar="CONTENT", help="the text; - reads it from stdin")
    add.add_argument("--alias", action="append", metavar="NAME", help="may be repeated")
    add.add_argument("--kind", default="note", help="note (default) or archive")
    _add_metadata(add)
    rename.add_argument("new_name", metavar="NEW_NAME")
    rename.add_argument("--keep-alias", action="store_true", help="the old name stays as an alias")
    for action in (alias, unalias):
        action.add_argument("alias", metavar="ALIAS")
    listed.add_argument("--kind", metavar="KIND", help="only note or archive")
    listed.add_argument("--limit", type=values.whole, metavar="N", help="how many at most")
    listed.add_argument("--after", type=values.whole, metavar="SEQ", help="those after this number")
    _add_json(notes, add, read, write, rename, alias, unalias, remove, listed)


def _add_session_verbs(verbs: Verbs) -> None:
    recall = _add(verbs, "recall", "sessions:recall", "show what an agent gets into its prompt")
    recall.add_argument("hint", metavar="HINT", nargs="*", help="what the prompt is about")
    recall.add_argument("--session", metavar="ID", help="with the messages of this session")
    recall.add_argument("--scope", metavar="SCOPE", help="moments of all sessions, or of session")
    sessions = _add(verbs, "sessions", "sessions:list_sessions", "list sessions; read or end them")
    actions = sessions.add_subparsers(metavar="ACTION", help="without it: list")
    listed = _add(actions, "list", "sessions:list_sessions", "list sessions, the latest first")
    read = _add(actions, "read", "sessions:read", "show the messages of a session")
    rename = _add(actions, "rename", "sessions:rename", "give a session a title")
    compact = _add(actions, "compact", "sessions:compact", "archive the older messages")
    wake = _add(actions, "wake", "sessions:wake", "open a session and show its first recall")
    sleep = _add(actions, "sleep", "sessions:sleep", "close a session and keep what lasts")
    for action in (read, rename, compact, sleep):
        action.add_argument("session", metavar="ID")
    rename.add_argument("title", metavar="TITLE")
    for action in (listed, read):
        action.add_argument("--limit", type=values.whole, metavar="N", help="how many at most")
    read.add_argument("--before", type=values.whole, metavar="ORDER", help="those before this one")
    compact.add_argument("--keep", type=values.whole, metavar="N", help="how many messages stay")
    wake.add_argument("--session", metavar="ID", help="open this one again")
    for verb in (recall, wake):
        verb.add_argument(
            "--max-tokens", type=values.whole, metavar="N", help="size of the whole answer"
        )
    working = _add(
        verbs, "working-memory", "sessions:working_memory", "show what an agent has in mind"
    )
    working.add_argument("--section", metavar="TITLE", help="only this section")
    working.add_argument("--set", metavar="TEXT", help="replace it; - reads the text from stdin")
    for verb, text in (
        (recall, "whose working memory; without it, that of the session"),
        (listed, "only sessions of this identity"),
        (wake, "who wakes up; without it, default"),
        (working, "whose; without it, default"),
    ):
        verb.add_argument("--identity", metavar="NAME", help=text)
    _add_json(recall, sessions, listed, read, rename, compact, wake, sleep, working)


def _add_governing_verbs(verbs: Verbs) -> None:
    forget = _add(verbs, "forget", "forget:forget", "delete memories for good")
    forget.add_argument("memories", metavar="ID_OR_NAME", nargs="*")
    forget.add_argument(
        "--older-than", type=values.seconds, metavar="SPAN", help="such as 12h, 7d or 2w"
    )
    _add_filter(forget)
    forget.add_argument("--everything", action="store_true", help="all memories; asks first")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    forget.add_argument("--dry-run", action="store_true", help="only say what would be forgotten")
    forget.add_argument("--purge", action="store_true", help="erase them from the files too")
    export = _add(verbs, "export", "transfer:export", "write memories to a file")
    export.add_argument("file", metavar="FILE", nargs="?", help="without it, or with -, to stdout")
    export.add_argument("--output", metavar="FILE", help="the same as FILE")
    export.add_argument(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="JSON lines (default), JSON, Markdown, or the durable facts as a block of a "
        "CLAUDE.md, which is replaced in FILE if it exists",
    )
    for field in ("kind", "tag"):
        export.add_argument(
            f"--{field}",
            action="append",
            metavar=field.upper(),
            help=f"only of this {field}; may be repeated for any of them",
        )
    export.add_argument("--embeddings", action="store_true", help="with their vectors")
    export.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    _add_filter(export)
    imported = _add(
        verbs,
        "import",
        "transfer:import_memories",
        "read memories from an export, a backup or ChromaDB",
    )
    imported.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="an export, a backup, a Markdown file with lists, or a MEMORY.md, HISTORY.md, "
        "CLAUDE.md, AGENTS.md or .cursorrules; - reads stdin",
    )
    imported.add_argument(
        "--format", choices=IMPORT_FORMATS, help="without it, recognised by content and name"
    )
    imported.add_argument(
        "--chroma", metavar="DIR", help="a directory of ChromaDB that another program wrote"
    )
    imported.add_argument(
        "--collection", metavar="NAME", help="its collection; without it, memories"
    )
    imported.add_argument("--overwrite", action="store_true", help="replace memories that differ")
    imported.add_argument(
        "--trust-vectors",
        action="store_true",
        help="use the vectors in FILE unchecked; only for a file of your own",
    )
    _add_json(forget, export, imported)


def _add_project_verbs(verbs: Verbs) -> None:
    projects = _add(
        verbs, "projects", "projects:projects", "list projects; rename, merge, move or forget them"
    )
    projects.add_argument(
        "action",
        nargs="?",
        choices=("list", "rename", "merge", "move", "forget"),
        metavar="ACTION",
        help="list (default); rename OLD NEW; merge FROM INTO; move ID...; forget NAME",
    )
    projects.add_argument(
        "names", nargs="*", metavar="NAME", help="projects; for move, memories by id or name"
    )
    projects.add_argument("--to", metavar="NAME", help="move: into this project")
    projects.add_argument("--shared", action="store_true", help="move: out of any project")
    projects.add_argument("--yes", action="store_true", help="forget: do not ask")
    projects.add_argument("--dry-run", action="store_true", help="forget: only say what would be")
    _add_json(projects)


def _add_store_verbs(verbs: Verbs) -> None:
    backup = _add(verbs, "backup", "store:backup", "copy all memories into one file, verified")
    backup.add_argument("folder", metavar="DIR", nargs="?", help="folder for a second copy")
    restore = _add(verbs, "restore", "store:restore", "restore the memories of a backup")
    restore.add_argument("file", metavar="FILE", help="a file that `memoryd backup` wrote")
    restore.add_argument(
        "--replace", action="store_true", help="delete the memories that are there"
    )
    rescue = _add(
        verbs, "rescue", "store:rescue", "save the memories of a daemon that lost its files"
    )
    rescue.add_argument("folder", metavar="DIR", nargs="?", help="folder for the backup file")
    purge = _add(
        verbs, "purge", "store:purge", "erase forgotten memories from all files but backups"
    )
    sweep = _add(verbs, "sweep", "store:sweep", "delete expired memories now")
    sweep.add_argument(
        "--now", action="store_true", help="also after a leap of the clock: date and time are right"
    )
    mirror = _add(verbs, "mirror", "mirror:mirror", "show the state of the files for people")
    action = mirror.add_mutually_exclusive_group()
    action.add_argument("--now", action="store_true", help="take edits in and write the files now")
    action.add_argument(
        "--confirm", action="store_true", help="forget the memories whose items are missing"
    )
    action.add_argument(
        "--keep", action="store_true", help="keep the memories whose items are missing"
    )
    _add_json(backup, restore, rescue, purge, sweep, mirror)


def _add_machine_verbs(verbs: Verbs) -> None:
    setup = _add(verbs, "setup", "setup:setup", "find or fetch the embedding model and prepare it")
    config = _add(verbs, "config", "config:config", "show every setting and where it was set")
    config.add_argument("--default", action="store_true", help="the default file, commented")
    service = _add(verbs, "service", "service:service", "let systemd or launchd run the daemon")
    service.add_argument("action", choices=("install", "uninstall", "status"))
    service.add_argument("--no-start", action="store_true", help="install: only write the files")
    doctor = _add(verbs, "doctor", "doctor:doctor", "find what is wrong and say how to repair it")
    doctor.add_argument("--fix", action="store_true", help="repair what can be repaired")
    version = _add(verbs, "version", "start:version", "show the versions of memoryd")
    _add_json(setup, config, service, doctor, version)


def _add(verbs: Verbs, name: str, place: str, text: str) -> Parser:
    verb: Parser = verbs.add_parser(name, help=text, description=text)
    verb.set_defaults(verb=f"memoryd.cli.{place}", json=False)
    # Suppressed: the verb's default would overwrite the same flag given before the verb.
    _add_places(verb, default=argparse.SUPPRESS)
    return verb


def _add_places(part: argparse.ArgumentParser, default: str | None) -> None:
    part.add_argument("--config", metavar="FILE", default=default, help="configuration file")
    part.add_argument("--data-dir", metavar="DIR", default=default, help="where memories are kept")
    part.add_argument("--socket", metavar="PATH", default=default, help="where the daemon listens")


def _add_filter(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--type", metavar="TYPE", help="only fact, conversation or context")
    verb.add_argument("--session", metavar="ID", help="only this session")
    verb.add_argument("--since", metavar="TIME", help="created at or after, ISO 8601")
    verb.add_argument("--until", metavar="TIME", help="created before, ISO 8601")
    verb.add_argument("--project", metavar="NAME", help="only memories of this project")
    verb.add_argument("--shared", action="store_true", help="only memories of no project")
    _add_metadata(verb)
    verb.add_argument(
        "--filter",
        type=values.json_object,
        metavar="JSON",
        help="""on metadata, such as '{"rating": {"$gte": 4}}'""",
    )


def _add_metadata(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--metadata",
        "--meta",
        type=values.pair,
        action="append",
        metavar="KEY=VALUE",
        help="may be repeated; a value that is JSON is parsed",
    )


def _add_json(*verbs: argparse.ArgumentParser) -> None:
    for verb in verbs:
        verb.add_argument("--json", action="store_true", help="answer in JSON")
