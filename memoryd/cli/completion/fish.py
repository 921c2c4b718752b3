"""The script for fish: one `complete` line for each flag and argument, with the condition under
which it is offered."""

from __future__ import annotations

from collections.abc import Iterator

from memoryd.cli.completion.commands import FILES, FOLDERS, NAMES, WORDS, Command, Flag

HEAD = """\
# Completion of memoryd for fish, written by `memoryd completion fish`.

# Sets __memoryd_path to the verb and action of the line, __memoryd_count to the arguments after
# them, and __memoryd_places to the flags that say which daemon is meant.
function __memoryd_walk
    set -g __memoryd_path ''
    set -g __memoryd_count 0
    set -g __memoryd_places
    set -l flag ''
    for word in (commandline -opc)[2..-1]
        if test -n "$flag"
            contains -- $flag --config --data-dir --socket
            and set -a __memoryd_places $flag $word
            set flag ''
        else if string match -q -- '-*' $word
            __memoryd_takes_value "$__memoryd_path" $word
            and set flag $word
        else if __memoryd_is_command "$__memoryd_path" $word
            set __memoryd_path (string trim "$__memoryd_path $word")
            set __memoryd_count 0
        else
            set __memoryd_count (math $__memoryd_count + 1)
        end
    end
end

# Whether the line is at the command $argv[1], and at its argument number $argv[2], if given.
function __memoryd_at
    __memoryd_walk
    test "$__memoryd_path" = "$argv[1]"
    and test (count $argv) -lt 2 -o "$__memoryd_count" = "$argv[2]"
end

# The names of the kind $argv[1].
function __memoryd_names
    __memoryd_walk
    memoryd completion --list $argv[1] $__memoryd_places 2>/dev/null
end
"""


def script(top: Command) -> str:
    """The whole script."""
    commands = list(top.all())
    below = [f"{_key(parent)}:{one.path[-1]}" for parent in commands for one in parent.commands]
    valued = [
        f"{_key(command)}:{name}"
        for command in commands
        for flag in command.flags
        if flag.value is not None
        for name in flag.names
    ]
    return "\n".join(
        [
            HEAD,
            _switch("__memoryd_is_command", below),
            _switch("__memoryd_takes_value", valued),
            "complete -c memoryd -f",
            *(line for command in commands for line in _lines(command)),
        ]
    )


def _switch(name: str, patterns: list[str]) -> str:
    shown = " ".join(map(_quoted, patterns))
    return f"""function {name}
    switch "$argv[1]:$argv[2]"
        case {shown}
            return 0
    end
    return 1
end
"""


def _lines(command: Command) -> Iterator[str]:
    at = f"__memoryd_at {_quoted(_key(command))}"
    for one in command.commands:
        what = f"-a {_quoted(one.path[-1])} -d {_quoted(one.help)}"
        yield f"complete -c memoryd -n {_quoted(f'{at} 0')} {what}"
    for flag in command.flags:
        yield f"complete -c memoryd -n {_quoted(at)} {_flag(flag)}"
    for place, argument in enumerate(command.arguments):
        where = at if argument.repeats else f"{at} {place}"
        if offered := _offered(argument.value):
            yield f"complete -c memoryd -n {_quoted(where)} {offered}"


def _flag(flag: Flag) -> str:
    names = " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names
    )
    takes = "-r" if flag.value == FILES else "-x"  # -x: no files beside what is offered
    value = "" if flag.value is None else f" {takes} {_offered(flag.value)}".rstrip()
    return f"{names}{value} -d {_quoted(flag.help)}"


def _offered(value: str) -> str:
    if value.startswith(WORDS):
        return f"-a {_quoted(value.removeprefix(WORDS))}"
    if value.startswith(NAMES):
        return f"-a {_quoted(f'(__memoryd_names {value.removeprefix(NAMES)})')}"
    return {FILES: "-F", FOLDERS: "-a '(__fish_complete_directories)'"}.get(value, "")


def _key(command: Command) -> str:
    return " ".join(command.path)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
