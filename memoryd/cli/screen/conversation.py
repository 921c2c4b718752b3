"""A conversation on a terminal: who said what and when, with its Markdown rendered."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from memoryd.cli.chat_log import marker_line, parts
from memoryd.cli.output import clean, minute
from memoryd.client.session_types import Marker, ReadSession
from memoryd.client.types import Message
from memoryd.recall_text import named, shown_text

STYLES = {"user": "bold green", "assistant": "bold blue", "system": "bold yellow"}
OTHER = "bold magenta"
INDENT = (0, 0, 0, 2)  # top, right, bottom, left


def show(found: ReadSession, archives: dict[str, str]) -> None:
    """Print a session."""
    console = Console(highlight=False)
    title = clean(found["title"] or found["session_id"])
    console.print(Text(title, style="bold"), Text(_facts(found), style="dim"))
    for _, message, marker in parts(found):
        console.print()
        if marker:
            _show_marker(console, marker, archives.get(marker["archive_id"], ""))
        if message:
            _show_message(console, message)


def _facts(found: ReadSession) -> str:
    shown = (
        clean(found["session_id"]) if found["title"] else "",
        clean(found["identity"] or ""),
        f"{found['turns']} messages",
        "closed" if found["closed_at"] else "open",
    )
    return ", ".join(part for part in shown if part)


def _show_message(console: Console, message: Message) -> None:
    who = clean(named(message["role"], message.get("speaker")))
    head = Text(who, style=STYLES.get(message["role"], OTHER))
    console.print(head.append(f"  {minute(message['at'])}", style="not bold dim"))
    console.print(Padding(_markdown(shown_text(message)), INDENT))


def _show_marker(console: Console, marker: Marker, archive: str) -> None:
    console.print(Rule(Text(marker_line(marker), style="dim"), style="dim"))
    if archive:
        console.print(Padding(_markdown(archive), INDENT), style="dim")


def _markdown(text: str) -> Markdown:
    # No links in the terminal's own way: they hide where they lead.
    return Markdown(clean(text), code_theme="ansi_dark", hyperlinks=False)
