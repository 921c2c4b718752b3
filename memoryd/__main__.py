"""The command `memoryd`. Hook and shim are taken first: an agent waits for them, so nothing that
they do not need may be imported on their way."""

from __future__ import annotations

import sys

WITH_VALUE = ("--config", "--data-dir", "--socket", "--tools", "--project")


def main() -> int:
    """Run the verb that was named; the exit code."""
    arguments = sys.argv[1:]
    verb, asked = _verb(arguments), {word.partition("=")[0] for word in arguments}
    if verb == "hook" and not {"-h", "--help", "--explain"} & asked:
        from memoryd.hook.call import main as hook
        from memoryd.hook.call import process_age

        return hook(arguments, process_age())
    if verb == "mcp" and not {"-h", "--help"} & asked:
        from memoryd.shim.entry import main as shim

        return shim(arguments)
    from memoryd.cli.main import main as verbs

    return verbs()


def _verb(arguments: list[str]) -> str:
    """The first word that is neither a flag nor the value of one."""
    words = iter(arguments)
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


if __name__ == "__main__":
    sys.exit(main())
