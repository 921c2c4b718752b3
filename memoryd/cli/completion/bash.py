"""The script for bash.

Bash gives the words of the line and wants the candidates. The script walks the words to find the
verb, then looks its flags and values up in tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memoryd.cli.completion.commands import Command

HEAD = """\
# Completion of memoryd for bash, written by `memoryd completion bash`.

_memoryd() {
    local word current=${COMP_WORDS[COMP_CWORD]} path= flag= kind= count=0 i
    local -a places=()
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [[ $word == "=" ]] && continue  # bash splits --flag=value into three words
        if [[ -n $flag ]]; then
            case $flag in
                --config | --data-dir | --socket) places+=("$flag" "${word/#\\~/$HOME}") ;;
            esac
            flag=
        elif [[ $word == -* ]]; then
            _memoryd_value "$path" "$word" && flag=$word
        elif _memoryd_is_command "$path" "$word"; then
            path=${path:+$path }$word
            count=0
        else
            ((count++))
        fi
    done
    if [[ $current == "=" ]]; then
        current=
    fi
    if [[ -n $flag ]]; then
        _memoryd_value "$path" "$flag"
        _memoryd_offer "$kind"
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$(_memoryd_flags "$path")" -- "$current"))
    else
        _memoryd_argument "$path" "$count"
        _memoryd_offer "$kind"
    fi
}

# Fill COMPREPLY for a value of the kind $1.
_memoryd_offer() {
    local name
    case $1 in
        words:*) COMPREPLY=($(compgen -W "${1#words:}" -- "$current")) ;;
        files) _memoryd_files -f ;;
        folders) _memoryd_files -d ;;
        names:*)
            while IFS= read -r name; do
                [[ $name == "$current"* ]] && COMPREPLY+=("$(printf %q "$name")")
            done < <(memoryd completion --list "${1#names:}" "${places[@]}" 2>/dev/null)
            ;;
    esac
}

_memoryd_files() {
    local IFS=$'\\n'  # a name may have spaces
    compopt -o filenames 2>/dev/null  # bash 3 has none
    COMPREPLY=($(compgen "$1" -- "$current"))
}
"""
FOOT = "\ncomplete -F _memoryd memoryd"


def script(top: Command) -> str:
    """The whole script."""
    commands = list(top.all())
    parts = (
        HEAD,
        _function("_memoryd_is_command", "Whether $2 is a command of $1.", _is_command(commands)),
        _function("_memoryd_flags", "The flags of $1.", _flags(commands)),
        _function(
            "_memoryd_value",
            "Whether the flag $2 of $1 takes a value; sets its kind.",
            _values(commands),
        ),
        _function("_memoryd_argument", "Sets the kind of argument $2 of $1.", _arguments(commands)),
    )
    return "\n".join(parts) + FOOT


def _function(name: str, what: str, cases: Iterable[str]) -> str:
    lines = "\n".join(f"        {case}" for case in cases)
    return f'# {what}\n{name}() {{\n    case "$1:${{2-}}" in\n{lines}\n    esac\n}}\n'


def _is_command(commands: list[Command]) -> Iterator[str]:
    for command in commands:
        if below := [one.path[-1] for one in command.commands]:
            patterns = "|".join(_quoted(f"{_key(command)}:{name}") for name in below)
            yield f"{patterns}) return 0 ;;"
    yield "*) return 1 ;;"


def _flags(commands: list[Command]) -> Iterator[str]:
    for command in commands:
        names = " ".join(name for flag in command.flags for name in flag.names)
        yield f"{_quoted(_key(command))}:*) echo {_quoted(names)} ;;"


def _values(commands: list[Command]) -> Iterator[str]:
    for command in commands:
        for flag in command.flags:
            if flag.value is not None:
                patterns = "|".join(_quoted(f"{_key(command)}:{name}") for name in flag.names)
                yield f"{patterns}) kind={_quoted(flag.value)} ;;"
    yield "*) return 1 ;;"


def _arguments(commands: list[Command]) -> Iterator[str]:
    for command in commands:
        if command.commands:
            names = " ".join(one.path[-1] for one in command.commands)
            yield f"{_quoted(_key(command))}:0) kind={_quoted(f'words:{names}')} ;;"
        for place, argument in enumerate(command.arguments):
            at = "*" if argument.repeats else str(place)
            yield f"{_quoted(_key(command))}:{at}) kind={_quoted(argument.value)} ;;"


def _key(command: Command) -> str:
    return " ".join(command.path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
