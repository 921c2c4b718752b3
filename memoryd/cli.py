"""The command line: one verb, one function, one call on the daemon.

A verb is named here and imported when it runs, so that a quick one stays quick. Failures print
`Error:` and `Try:`, and exit 1; wrong usage exits 2, Ctrl-C 130.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memoryd import __version__
from memoryd.cli_text import complain, use_any_terminal
from memoryd.errors import MemorydError

INTERRUPTED = 130  # as shells have it: 128 + SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    use_any_terminal()
    options = parser().parse_args(arguments)
    try:
        code = _verb(options.verb)(options)
        sys.stdout.flush()
        return code
    except MemorydError as exc:
        complain(exc)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away, as `head` does. Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as exc:  # a traceback helps nobody at a prompt
        complain(MemorydError(f"memoryd failed with {type(exc).__name__}: {exc}"))
    return 1


def _verb(place: str) -> Callable[[argparse.Namespace], int]:
    module, _, name = place.partition(":")
    found: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), name)
    return found


def parser() -> argparse.ArgumentParser:
    """Every verb with its flags."""
    top = argparse.ArgumentParser(
        prog="memoryd", description="The one memory that every AI agent on a machine shares."
    )
    top.add_argument("--version", action="version", version=f"memoryd {__version__}")
    _add_places(top, default=None)
    verbs = top.add_subparsers(required=True, metavar="VERB")
    _add_daemon_verbs(verbs)
    _add_memory_verbs(verbs)
    _add_store_verbs(verbs)
    _add_governing_verbs(verbs)
    _add_machine_verbs(verbs)
    return top


Verbs = Any  # argparse keeps the type of its verbs to itself


def _add_daemon_verbs(verbs: Verbs) -> None:
    serve = _add(verbs, "serve", "cli_daemon:serve", "run the daemon in the foreground")
    serve.add_argument("--log-file", type=Path, metavar="FILE", help="log to a file, not to stderr")
    _add(verbs, "mcp", "cli_daemon:mcp", "serve an MCP client on stdin and stdout")
    status = _add(verbs, "status", "cli_daemon:status", "show how the daemon is")
    stop = _add(verbs, "stop", "cli_daemon:stop", "end the daemon, once its calls are done")
    logs = _add(verbs, "logs", "cli_logs:logs", "show the log of a daemon in the background")
    logs.add_argument("-n", "--lines", type=_count, default=50, metavar="N", help="how many lines")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows")
    _add_json(status, stop, logs)


def _add_memory_verbs(verbs: Verbs) -> None:
    store = _add(verbs, "store", "cli_memories:store", "remember something")
    store.add_argument("content", metavar="CONTENT", help="the text; - reads it from stdin")
    store.add_argument("--type", metavar="TYPE", help="fact (default), conversation or context")
    store.add_argument("--name", help="a name to get, replace or forget it by")
    store.add_argument("--expires-at", metavar="TIME", help="another end than the type's, ISO 8601")
    store.add_argument("--pinned", action="store_true", default=None, help="never expires")
    search = _add(verbs, "search", "cli_memories:search", "find memories by meaning")
    search.add_argument(
        "query", metavar="QUERY", nargs="+", help="what to look for, in plain words"
    )
    search.add_argument("--type", metavar="TYPE", help="only fact, conversation or context")
    search.add_argument("--limit", type=int, metavar="N", help="at most so many")
    search.add_argument("--min-score", type=float, metavar="SCORE", help="0 to 1")
    search.add_argument("--since", metavar="TIME", help="created at or after, ISO 8601")
    search.add_argument("--until", metavar="TIME", help="created before, ISO 8601")
    search.add_argument("--max-tokens", type=int, metavar="N", help="budget of the whole answer")
    search.add_argument("--explain", action="store_true", default=None, help="say why it was found")
    _add_common(store, search)
    get = _add(verbs, "get", "cli_memories:get", "show one memory")
    get.add_argument("memory", metavar="ID_OR_NAME")
    _add_json(store, search, get)


def _add_governing_verbs(verbs: Verbs) -> None:
    forget = _add(verbs, "forget", "cli_forget:forget", "delete memories for good")
    forget.add_argument("memories", metavar="ID_OR_NAME", nargs="*")
    forget.add_argument("--type", metavar="TYPE", help="all of fact, conversation or context")
    forget.add_argument("--older-than", type=_span, metavar="SPAN", help="such as 12h, 7d or 2w")
    forget.add_argument("--since", metavar="TIME", help="created at or after, ISO 8601")
    forget.add_argument("--until", metavar="TIME", help="created before, ISO 8601")
    _add_common(forget)
    forget.add_argument("--everything", action="store_true", help="all memories; asks first")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    forget.add_argument("--dry-run", action="store_true", help="only say what would be forgotten")
    forget.add_argument("--purge", action="store_true", help="remove the bytes from the disk too")
    export = _add(
        verbs, "export", "cli_export:export", "write all memories to a file of JSON lines"
    )
    export.add_argument("file", metavar="FILE", nargs="?", default="-", help="- or none: stdout")
    export.add_argument("--embeddings", action="store_true", help="with their vectors")
    export.add_argument("--overwrite", action="store_true", help="replace FILE if it is there")
    take = _add(verbs, "import", "cli_import:take_in", "read memories from such a file")
    take.add_argument("file", metavar="FILE", help="- reads stdin")
    take.add_argument("--overwrite", action="store_true", help="replace memories that differ")
    _add_json(forget, export, take)


def _add_store_verbs(verbs: Verbs) -> None:
    backup = _add(verbs, "backup", "cli_store:backup", "copy all memories into one file, verified")
    backup.add_argument("folder", metavar="DIR", nargs="?", help="a copy of it here, too")
    restore = _add(verbs, "restore", "cli_store:restore", "make the store from a backup")
    restore.add_argument("file", metavar="FILE", help="a file that `memoryd backup` wrote")
    restore.add_argument("--replace", action="store_true", help="even if there are memories")
    purge = _add(
        verbs, "purge", "cli_store:purge", "leave no byte of what was forgotten, except in backups"
    )
    _add_json(backup, restore, purge)


def _add_machine_verbs(verbs: Verbs) -> None:
    setup = _add(
        verbs, "setup", "cli_daemon:setup", "find or fetch the embedding model and prepare it"
    )
    service = _add(
        verbs, "service", "cli_service:service", "have systemd or launchd keep the daemon"
    )
    service.add_argument("action", choices=("install", "uninstall", "status"))
    doctor = _add(
        verbs, "doctor", "cli_doctor:doctor", "find what is wrong and say how to repair it"
    )
    doctor.add_argument("--fix", action="store_true", help="repair what can be repaired")
    _add_json(setup, service, doctor)


def _add(verbs: Verbs, name: str, place: str, text: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
    verb.set_defaults(verb=f"memoryd.{place}", json=False)
    # Suppressed, or the verb's default would undo the same flag given before it.
    _add_places(verb, default=argparse.SUPPRESS)
    return verb


def _add_places(part: argparse.ArgumentParser, default: str | None) -> None:
    part.add_argument("--config", metavar="FILE", default=default, help="configuration file")
    part.add_argument("--data-dir", metavar="DIR", default=default, help="where memories are kept")
    part.add_argument("--socket", metavar="PATH", default=default, help="where the daemon listens")


def _add_common(*verbs: argparse.ArgumentParser) -> None:
    for verb in verbs:
        verb.add_argument("--session", metavar="ID", help="the session it belongs to")
        verb.add_argument(
            "--metadata",
            "--meta",
            type=_pair,
            action="append",
            metavar="KEY=VALUE",
            help="may be repeated; a value that is JSON is taken as such",
        )


def _add_json(*verbs: argparse.ArgumentParser) -> None:
    for verb in verbs:
        verb.add_argument("--json", action="store_true", help="answer in JSON")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _span(text: str) -> float:
    from memoryd.cli_forget import seconds

    return seconds(text)


def _pair(text: str) -> tuple[str, object]:
    import json

    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


if __name__ == "__main__":
    sys.exit(main())
