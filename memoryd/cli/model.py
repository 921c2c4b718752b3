"""The first part of `memoryd setup`: find or fetch the embedding model and prepare it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memoryd.cli.output import note, say
from memoryd.cli.progress import Progress as Bar
from memoryd.cli.target import settings
from memoryd.errors import EmbedError
from memoryd.settings import Config

if TYPE_CHECKING:
    from memoryd.ports import Progress

MEGABYTE = 1_000_000


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """Prepare the model and check that it runs, so that no call has to wait for it; its facts,
    which are also said unless they are for JSON."""
    from memoryd.wiring.engine import prepare_model, try_model

    config = settings(options)
    if config.embedding.backend == "http":
        return _ask(config, as_json=options.json)
    try:
        # Libraries may print to stdout, which is for the answer.
        with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
            watch = _silent if options.json else _ProgressNotes(stack)
            prepared = prepare_model(config, watch, thorough=True)
            try_model(config)
    except EmbedError as exc:
        raise _explained(exc, config) from exc
    if not options.json:
        say(f"Ready: {prepared.identity}, {prepared.dimension} numbers a vector")
        say(f"From {prepared.source}")
        say(f"In {prepared.folder}")
    facts = {"model": prepared.identity, "dimension": prepared.dimension}
    return facts | {"folder": str(prepared.folder), "source": prepared.source}


def _ask(config: Config, *, as_json: bool) -> dict[str, Any]:
    """There is nothing to prepare: ask the server whether it has the model."""
    from memoryd.wiring.engine import ask_server

    found = ask_server(config)
    if not as_json:
        say(f"Ready: {found.model}, {found.dimension} numbers a vector")
    return {"model": found.model, "dimension": found.dimension}


def _silent(progress: Progress) -> None:
    pass


class _ProgressNotes:
    """Shows progress: a line for each step, and a bar for a download on a terminal."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._what = ""
        self._at: Callable[[int], None] | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.what != self._what:
            self._stack.close()  # the bar of the previous step
            self._what, self._at = progress.what, None
            note(progress.what)
        if progress.total:
            if self._at is None:
                bar = Bar("Megabytes", progress.total // MEGABYTE)
                self._at = self._stack.enter_context(bar).at
            self._at(progress.done // MEGABYTE)


def _explained(exc: EmbedError, config: Config) -> EmbedError:
    """The error for the user of `memoryd setup`: with each place that was tried on a line, and a
    hint other than to run `memoryd setup`."""
    from memoryd.wiring.engine import what_helps

    message = exc.message
    if exc.tried:
        lines = "".join(f"\n  {line}" for line in exc.tried)
        message = f"{message} Looked at:{lines}"
    hint = what_helps(config) if "memoryd setup" in exc.hint else exc.hint
    return EmbedError(message, code=exc.code, hint=hint)
