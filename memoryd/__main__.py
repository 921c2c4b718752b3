"""The command `memoryd`. The shim is taken first: an MCP client waits for it, so nothing that
it does not need may be imported on its way."""

from __future__ import annotations

import sys

WITH_VALUE = ("--config", "--data-dir", "--socket", "--tools", "--project")


def main() -> int:
    """Run the verb that was named; the exit code."""
    arguments = sys.argv[1:]
    if _verb(arguments) == "mcp" and not {"-h", "--help"} & set(arguments):
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
