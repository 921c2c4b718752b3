"""The verbs on the daemon, the store, clients and the machine."""

from __future__ import annotations

from pathlib import Path

from memoryd.cli import options as values
from memoryd.cli.options import Parser
from memoryd.cli.verbs.shared import Verbs, add, add_filter, add_json
from memoryd.formats import FORMATS, IMPORT_FORMATS
from memoryd.hook_events import CLIENTS, EVENTS
from memoryd.imports import PRODUCTS
from memoryd.setup.clients import BY_NAME
from memoryd.toolsets import TOOLSETS


def add_daemon_verbs(verbs: Verbs) -> None:
    serve = add(verbs, "serve", "daemon:serve", "run the daemon in the foreground")
    serve.add_argument("--log-file", type=Path, metavar="FILE", help="log to a file, not to stderr")
    mcp = add(verbs, "mcp", "daemon:mcp", "serve an MCP client on stdin and stdout")
    mcp.add_argument(
        "--tools", metavar="LIST", help=f"toolsets such as {','.join(TOOLSETS)}, or all"
    )
    mcp.add_argument(
        "--project", metavar="NAME", help="without it, that of the git checkout; empty: none"
    )
    start = add(verbs, "start", "start:start", "start the daemon in the background")
    restart = add(verbs, "restart", "start:restart", "stop the daemon and start it again")
    status = add(verbs, "status", "daemon:status", "show what the daemon does and holds")
    stop = add(verbs, "stop", "daemon:stop", "stop the daemon once its calls are done")
    stop.add_argument("--kill", action="store_true", help="kill a daemon that hangs")
    logs = add(verbs, "logs", "logs:logs", "show the daemon's log")
    logs.add_argument(
        "-n", "--lines", type=values.count, default=50, metavar="N", help="how many lines"
    )
    logs.add_argument(
        "--level", choices=values.LOG_LEVELS, metavar="LEVEL", help="only this level and above"
    )
    logs.add_argument("-f", "--follow", action="store_true", help="show new lines as they come")
    dashboard = add(verbs, "dashboard", "dashboard:dashboard", "open the page in a browser")
    dashboard.add_argument("--no-browser", action="store_true", help="only print the link")
    top = add(verbs, "top", "top:top", "watch calls, latencies and sessions as they happen")
    top.add_argument("--once", action="store_true", help="one snapshot, as in a pipe")
    top.add_argument(
        "--interval", type=values.interval, default=1.0, metavar="SECONDS", help="1 without it"
    )
    top.add_argument("--text", action="store_true", help="with the memories stored and found")
    add_json(start, restart, status, stop, logs, dashboard, top)


def add_governing_verbs(verbs: Verbs) -> None:
    forget = add(verbs, "forget", "forget:forget", "delete memories for good")
    forget.add_argument("memories", metavar="ID_OR_NAME", nargs="*")
    forget.add_argument(
        "--older-than", type=values.seconds, metavar="SPAN", help="such as 12h, 7d or 2w"
    )
    add_filter(forget)
    forget.add_argument("--everything", action="store_true", help="all memories; asks first")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    forget.add_argument("--dry-run", action="store_true", help="only say what would be forgotten")
    forget.add_argument("--purge", action="store_true", help="erase them from the files too")
    export = add(verbs, "export", "transfer:export", "write memories to a file")
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
    add_filter(export)
    add_json(forget, export, add_import(verbs))


def add_import(verbs: Verbs) -> Parser:
    what = "read memories from an export, a backup, or another program"
    imported = add(verbs, "import", "transfer:import_memories", what)
    imported.add_argument(
        "file",
        metavar="PATH",
        nargs="?",
        help="an export, a backup, a MEMORY.md, HISTORY.md, CLAUDE.md, AGENTS.md or .cursorrules, "
        "a Markdown file with lists, or what another program keeps (docs/import.md); - reads stdin",
    )
    formats, how = (*IMPORT_FORMATS, *PRODUCTS), "without it, recognised by content and name"
    imported.add_argument("--format", choices=formats, help=how)
    imported.add_argument("--dry-run", action="store_true", help="only show what would come")
    imported.add_argument("--keep", action="store_true", help="conversations do not expire")
    imported.add_argument("--chroma", metavar="DIR", help="a ChromaDB directory of another program")
    imported.add_argument("--collection", metavar="NAME", help="its collection; else memories")
    imported.add_argument("--overwrite", action="store_true", help="replace memories that differ")
    imported.add_argument(
        "--trust-vectors",
        action="store_true",
        help="use the vectors in PATH unchecked; only for a file of your own",
    )
    return imported


def add_store_verbs(verbs: Verbs) -> None:
    backup = add(verbs, "backup", "store:backup", "copy all memories into one file, verified")
    backup.add_argument("folder", metavar="DIR", nargs="?", help="folder for a second copy")
    restore = add(verbs, "restore", "store:restore", "restore the memories of a backup")
    restore.add_argument("file", metavar="FILE", help="a file that `memoryd backup` wrote")
    restore.add_argument(
        "--replace", action="store_true", help="delete the memories that are there"
    )
    rescue = add(
        verbs, "rescue", "store:rescue", "save the memories of a daemon that lost its files"
    )
    rescue.add_argument("folder", metavar="DIR", nargs="?", help="folder for the backup file")
    purge = add(
        verbs, "purge", "store:purge", "erase forgotten memories from all files but backups"
    )
    sweep = add(verbs, "sweep", "store:sweep", "delete expired memories now")
    sweep.add_argument(
        "--now", action="store_true", help="also after a leap of the clock: date and time are right"
    )
    mirror = add(verbs, "mirror", "mirror:mirror", "show the state of the files for people")
    action = mirror.add_mutually_exclusive_group()
    action.add_argument("--now", action="store_true", help="take edits in and write the files now")
    action.add_argument(
        "--confirm", action="store_true", help="forget the memories whose items are missing"
    )
    action.add_argument(
        "--keep", action="store_true", help="keep the memories whose items are missing"
    )
    action.add_argument(
        "--block", metavar="FILE", help="keep a block of facts in FILE, such as AGENTS.md"
    )
    action.add_argument("--no-block", metavar="FILE", help="take that block out of FILE again")
    mirror.add_argument(
        "--project",
        metavar="NAME",
        help='with --block: the project of the facts, "" for none; else that of FILE',
    )
    add_json(backup, restore, rescue, purge, sweep, mirror)


def add_machine_verbs(verbs: Verbs) -> None:
    add_setup(verbs)
    plugin = add(verbs, "plugin", "plugin:plugin", "show the folder of the plugin for Claude Code")
    config = add(verbs, "config", "config:config", "show every setting and where it was set")
    config.add_argument("--default", action="store_true", help="the default file, commented")
    service = add(verbs, "service", "service:service", "let systemd or launchd run the daemon")
    service.add_argument("action", choices=("install", "uninstall", "status"))
    service.add_argument("--no-start", action="store_true", help="install: only write the files")
    doctor = add(verbs, "doctor", "doctor:doctor", "find what is wrong and say how to repair it")
    doctor.add_argument("--fix", action="store_true", help="repair what can be repaired")
    version = add(verbs, "version", "start:version", "show the versions of memoryd")
    shells = add(verbs, "completion", "completion.verb:completion", "print a completion script")
    shells.add_argument(
        "shell",
        nargs="?",
        choices=("bash", "zsh", "fish"),
        metavar="SHELL",
        help="bash, zsh or fish",
    )
    shells.add_argument(
        "--list",
        choices=("memories", "notes", "projects", "sessions"),
        metavar="NAMES",
        help="only print these names, as the scripts do: memories, notes, projects or sessions",
    )
    demo = add(verbs, "demo", "demo.verb:demo", "make invented memories to try things on")
    demo.add_argument(
        "--memories", type=values.whole, metavar="N", help="more of them, up to 100000"
    )
    demo.add_argument("--remove", action="store_true", help="delete the demo with its directory")
    add_json(plugin, config, service, doctor, version, demo)


def add_setup(verbs: Verbs) -> None:
    setup = add(verbs, "setup", "setup:setup", "prepare the model, and add memoryd to a client")
    which = f"{', '.join(BY_NAME)}; without one, prepare and check all, and list the clients"
    setup.add_argument("client", nargs="?", choices=tuple(BY_NAME), metavar="CLIENT", help=which)
    setup.add_argument("--print", action="store_true", help="only show what would change")
    setup.add_argument("--remove", action="store_true", help="remove memoryd from the client")
    scope = setup.add_mutually_exclusive_group()
    scope.add_argument("--user", action="store_true", help="for all projects (default)")
    scope.add_argument("--project", action="store_true", help="for the project of this folder only")
    setup.add_argument(
        "--no-hooks", action="store_true", help="only the MCP entry, without the client's hooks"
    )
    setup.add_argument("--force", action="store_true", help="also change an entry that differs")
    add_json(setup)


def add_hook_verbs(verbs: Verbs) -> None:
    hook = add(verbs, "hook", "hooks:hook", "answer an event of an agent's client, or explain it")
    hook.add_argument("event", metavar="EVENT", nargs="?", help=", ".join(EVENTS))
    hook.add_argument("--client", metavar="NAME", help=", ".join(CLIENTS))
    hook.add_argument("--explain", metavar="PROMPT", help="show what a prompt would get, and why")
    hook.add_argument("--session", metavar="ID", help="explain: without what this session has")
    hook.add_argument(
        "--project", metavar="NAME", help="without it, that of the git checkout; empty: none"
    )
    pushes = add(verbs, "pushes", "hooks:pushes", "show what hooks put into prompts, and why")
    pushes.add_argument("--session", metavar="ID", help="only of this session")
    pushes.add_argument("--limit", type=values.whole, metavar="N", help="how many at most")
    add_json(hook, pushes)
