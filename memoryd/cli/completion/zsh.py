"""The script for zsh: a function for each command, which describes its flags to `_arguments`."""

from __future__ import annotations

from memoryd.cli.completion.commands import FILES, FOLDERS, NAMES, WORDS, Argument, Command, Flag

HEAD = """\
#compdef memoryd
# Completion of memoryd for zsh, written by `memoryd completion zsh`.

# Offer the names of the kind $1, from the daemon that the line means.
_memoryd_names() {
    local -a found places
    local flag
    for flag in --config --data-dir --socket; do
        [[ -n ${opt_args[$flag]} ]] && places+=($flag ${(Q)opt_args[$flag]})
    done
    found=("${(@f)$(memoryd completion --list $1 $places 2>/dev/null)}")
    compadd -- ${found:#}
}
"""
FOOT = """
if [[ $funcstack[1] == _memoryd ]]; then
    _memoryd "$@"
else
    compdef _memoryd memoryd
fi"""


def script(top: Command) -> str:
    """The whole script."""
    return "\n".join([HEAD, *(_function(command) for command in top.all())]) + FOOT


def _function(command: Command) -> str:
    specs = [_flag(flag, name) for flag in command.flags for name in flag.names]
    specs += [
        _argument(place, argument) for place, argument in enumerate(command.arguments, start=1)
    ]
    if command.commands:
        return _parent(command, specs)
    body = " \\\n        ".join(["_arguments -S", *specs])
    return f"{_name(command)}() {{\n    {body}\n}}\n"


def _parent(command: Command, specs: list[str]) -> str:
    """A command with commands below it: complete their names, then hand over to theirs."""
    specs = [*specs, "'1: :->command'", "'*:: :->rest'"]
    body = " \\\n        ".join(["_arguments -C", *specs])
    names = "\n".join(f"                {_described(one)}" for one in command.commands)
    cases = "\n".join(
        f"                {one.path[-1]}) {_name(one)} ;;" for one in command.commands
    )
    return f"""{_name(command)}() {{
    local curcontext=$curcontext state line
    local -a commands
    typeset -A opt_args
    {body}
    case $state in
        command)
            commands=(
{names}
            )
            _describe -t commands command commands
            ;;
        rest)
            case $line[1] in
{cases}
            esac
            ;;
    esac
}}
"""


def _name(command: Command) -> str:
    return "_".join(["_memoryd", *(part.replace("-", "_") for part in command.path)])


def _described(command: Command) -> str:
    return _quoted(f"{command.path[-1]}:{command.help}")


def _flag(flag: Flag, name: str) -> str:
    repeats = "*" if flag.repeats else ""
    described = f"{repeats}{name}{_equals(flag, name)}[{_escaped(flag.help)}]"
    if flag.value is None:
        return _quoted(described)
    return _quoted(f"{described}: :{_action(flag.value)}")


def _equals(flag: Flag, name: str) -> str:
    """`=`: the value follows in the next word or after an equals sign."""
    return "=" if flag.value is not None and name.startswith("--") else ""


def _argument(place: int, argument: Argument) -> str:
    at = "*" if argument.repeats else str(place)
    return _quoted(f"{at}:{_escaped(argument.name)}:{_action(argument.value)}")


def _action(value: str) -> str:
    if value.startswith(WORDS):
        return f"({value.removeprefix(WORDS)})"
    if value.startswith(NAMES):
        return f"{{_memoryd_names {value.removeprefix(NAMES)}}}"
    return {FILES: "_files", FOLDERS: "_path_files -/"}.get(value, "")


def _escaped(text: str) -> str:
    for special in "\\[]:":
        text = text.replace(special, f"\\{special}")
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
