"""The command line: one verb, one function, one call on the daemon.

A verb is imported only when it runs, so that quick ones stay quick. Failures print
`Error:` and `Try:` to stderr, or with --json an `error` to stdout, and exit 1; wrong usage exits
2, Ctrl-C 130.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from memoryd.cli.options import UsageError
from memoryd.cli.output import complain, use_any_terminal
from memoryd.cli.verbs import parser
from memoryd.errors import MemorydError

WRONG_USAGE = 2
INTERRUPTED = 130  # the exit code that shells use: 128 + SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    use_any_terminal()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        pass  # the reader closed the pipe, as `head` does
    except OSError as exc:  # a full disk behind `> file`
        sys.stderr.write(f"Error: The output cannot be written: {exc.strerror}.\n")
    # Else Python would try to write the rest again when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _run(words: list[str]) -> int:
    """Run one verb and report its failure; the exit code."""
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        options = parser().parse_args(words)
        return _verb(options.verb)(options)
    except UsageError as exc:
        complain(exc, as_json=as_json)
        return WRONG_USAGE
    except MemorydError as exc:
        complain(exc, as_json=as_json)
    except KeyboardInterrupt:
        complain(MemorydError("Interrupted.", code="interrupted"), as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as exc:  # no traceback: it does not help at a prompt
        # The type alone: the message can quote a memory.
        sentence = f"memoryd failed with {type(exc).__name__}."
        hint = "Run: memoryd doctor"
        complain(MemorydError(sentence, code="internal", hint=hint), as_json=as_json)
    return 1


def _verb(place: str) -> Callable[[argparse.Namespace], int]:
    module, _, name = place.partition(":")
    found: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), name)
    return found


if __name__ == "__main__":
    sys.exit(main())
