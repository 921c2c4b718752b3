"""Every verb with its flags and values as data, read from the real parser.

What a value may be is told by its choices or by its metavar, which is the word in the help.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from memoryd.cli.options import Parser
from memoryd.hook_events import CLIENTS, EVENTS
from memoryd.model import MemoryType
from memoryd.phases import PHASES

# Kinds of values. `words:` and `names:` are followed by the words, or by a kind of names.
TEXT, FILES, FOLDERS, WORDS, NAMES = "text", "files", "folders", "words:", "names:"
MEMORIES, NOTES, PROJECTS, SESSIONS = NAME_KINDS = ("memories", "notes", "projects", "sessions")
BY_METAVAR = {
    "FILE": FILES,
    "PATH": FILES,
    "F": FILES,
    "DIR": FOLDERS,
    "ID_OR_NAME": NAMES + MEMORIES,
    "SESSION": NAMES + SESSIONS,
    "TYPE": WORDS + " ".join(type.value for type in MemoryType),
    "ORDER": WORDS + "newest oldest expiring most_used least_sure",
    "PHASE": WORDS + " ".join(PHASES),
    "EVENT": WORDS + " ".join(EVENTS),
    "SCOPE": WORDS + "all session",
    "MODE": WORDS + "words",
    "KIND": WORDS + "note archive",
}
# Where one metavar stands for several things: by verb and name of the argument.
BY_NAME = {
    "session": NAMES + SESSIONS,
    "project": NAMES + PROJECTS,
    "to": NAMES + PROJECTS,
    "notes name": NAMES + NOTES,
    "projects names": NAMES + PROJECTS,
    "hook client": WORDS + " ".join(CLIENTS),
    "sessions read before": TEXT,  # its metavar is ORDER, too
    "export kind": TEXT,
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag; `value` is the kind of its value, None if it takes none."""

    names: tuple[str, ...]
    help: str
    value: str | None
    repeats: bool


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument. `repeats`: it takes all further words, too."""

    name: str
    value: str
    repeats: bool


@dataclass(frozen=True, slots=True)
class Command:
    """The command, a verb or an action of it; `path` is empty for the command itself."""

    path: tuple[str, ...]
    help: str
    flags: tuple[Flag, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    def all(self) -> Iterator[Command]:
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def command_of(parser: Parser) -> Command:
    """A parser, and those of its verbs, as data."""
    path = tuple(parser.prog.split()[1:])
    flags, arguments = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        if action.option_strings:
            flags.append(_flag(action, path))
        else:
            name = action.metavar if isinstance(action.metavar, str) else action.dest
            repeats = action.nargs in ("*", "+")
            arguments.append(Argument(name, _kind(action, path), repeats))
    below = tuple(command_of(verb) for verb in parser.verbs().values())
    return Command(path, parser.description or "", tuple(flags), tuple(arguments), below)


def _flag(action: argparse.Action, path: tuple[str, ...]) -> Flag:
    takes_value = action.nargs != 0
    repeats = isinstance(action, argparse._AppendAction)
    text = (action.help or "").replace("%%", "%")
    return Flag(
        tuple(action.option_strings), text, _kind(action, path) if takes_value else None, repeats
    )


def _kind(action: argparse.Action, path: tuple[str, ...]) -> str:
    if action.choices is not None:
        return WORDS + " ".join(map(str, action.choices))
    for place in (" ".join([*path, action.dest]), " ".join([*path[:1], action.dest]), action.dest):
        if place in BY_NAME:
            return BY_NAME[place]
    return BY_METAVAR.get(str(action.metavar), TEXT)
