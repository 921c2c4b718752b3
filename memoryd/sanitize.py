"""Recalled text is data: what is given to a reader can neither control a terminal, nor hide text
from a person, nor look like a turn of the conversation.

Two steps, in this order, because removing a character can join the halves of a delimiter.
`visible` removes invisible characters: controls, escape sequences, direction overrides, tags, and
joiners and variation selectors where no script or emoji needs them. `as_data` then replaces the
brackets of chat templates, as in `<|im_start|>`, by angle quotation marks. The words stay, so a
person can read everything, and no tokenizer takes them for a special token. The stored text is not
changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memoryd.metadata import mapped

# All but line feed and tab. A translation table: most text is ASCII, and this is the fastest way.
CONTROLS = dict.fromkeys([*range(0x09), *range(0x0B, 0x20), 0x7F]) | {0x0D: 0x0A}
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # colours, the cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\n]*+(?:\x07|\x1b\\|\x9c)"  # titles
    r"|\x1b[ -/]*+[0-~]"
)
INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
# Scripts that need joiners: Arabic and related ones, those of India, Khmer, Mongolian.
JOINING = "\u0600-\u061b\u061d-\u109f\u1780-\u180a\u1810-\u18af\ufb50-\ufdff\ufe70-\ufefc"
LEFTWARD = "\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
PICTURE = "\u00a9\u00ae\u203c-\u205f\u2070-\u3163\u3165-\u3299\U0001f000-\U0001faff"
IDEOGRAPH = "\u3400-\u9fff\U00020000-\U0003ffff"
COUNTRIES = {  # the three whose flags are written with tags
    "".join(chr(0xE0000 + ord(letter)) for letter in f"{name}\x7f")
    for name in ("gbeng", "gbsct", "gbwls")
}
BLACK_FLAG = "\U0001f3f4"
HIDDEN = re.compile(  # begins with one character class, which is fast to search; then any tags
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff][\U000e0000-\U000e007f]*+"
)
NEEDED = re.compile(  # hidden characters that stay, because their context needs them
    rf"(?<=[{JOINING}])[\u200c\u200d]"
    rf"|(?:(?<=[{PICTURE}])|(?<=[{PICTURE}]\ufe0f))\u200d(?=[{PICTURE}])"
    rf"|(?<=[{PICTURE}])[\ufe0e\ufe0f]|(?<=[#*0-9])\ufe0f(?=\u20e3)"
    rf"|(?<=[{IDEOGRAPH}])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
    rf"|(?<=[{LEFTWARD}])[\u200e\u200f\u061c]|[\u200e\u200f\u061c](?=[{LEFTWARD}])"
    r"|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
)
BREAKS = "\r\x85\u2028\u2029"

TAGS = (
    r"system|user|assistant|human|developer|tool|function|invoke|parameter|instruction|prompt"
    r"|think|thinking|memory|memories"
)
TEMPLATES = re.compile(
    r"[<＜]{1,2}(?P<tag>[|｜][^\s|｜<>]{1,64}[|｜]"  # noqa: RUF001
    r"|/?(?:SYS|s|bos|eos|start_of_turn|end_of_turn)"
    rf"|(?i:\s{{0,2}}/?\s{{0,2}}(?:\w{{1,12}}:)?(?:{TAGS})s?(?:[_:-][\w-]{{1,40}})?"
    r"(?:\s[^<>]{0,200})?/?))[>＞]{1,2}"  # noqa: RUF001
)
MARKS = re.compile(r"\[(?P<tag>/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS))\]")
QUOTED = "\u2039{}\u203a"
COLON = r"(?=[*_ ]{0,3}[:：])"  # noqa: RUF001
TURNS = re.compile(
    rf"^(?:(?P<any>[ \t>*_#-]{{0,8}})(?P<speaker>human|assistant){COLON}"
    # Many harmless lines begin with these: they look like a turn only after an empty line.
    rf"|(?P<below>[ \t]{{0,8}}\n[ \t>*_#-]{{0,8}})(?P<role>system|user|developer|tool){COLON}"
    rf"|(?P<heading>\#{{2,6}}[ ]?)(?P<part>instructions?|response){COLON})",
    re.I | re.M,
)
SPEAKERS = ("human", "assistant", "system", "user", "developer", "tool", "instruction", "response")


def as_data(text: str) -> str:
    """`text` without hidden characters, and without anything that looks like chat markup."""
    text = visible(text)
    if "<" in text or "＜" in text:  # noqa: RUF001
        text = TEMPLATES.sub(_quoted, text)
    if "[" in text:
        text = MARKS.sub(_quoted, text)
    folded = text.lower()
    if any(speaker in folded for speaker in SPEAKERS):
        text = TURNS.sub(_named, text)
    return text


def metadata_as_data(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The same for every text in metadata, keys included."""
    changed: dict[str, Any] = mapped(metadata, lambda text, key: as_data(text))
    return changed


def visible(text: str) -> str:
    """`text` without invisible characters; lines end in a line feed."""
    if any(introducer in text for introducer in INTRODUCERS):
        text = ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.translate(CONTROLS) if text.isascii() else HIDDEN.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    found, text, at = match[0], match.string, match.start()
    if found in COUNTRIES and text[at - 1 : at] == BLACK_FLAG:
        return found
    if found[0] in BREAKS:
        return "\n"
    return found[0] if NEEDED.match(text, at) else ""


def _quoted(match: re.Match[str]) -> str:
    return QUOTED.format(match["tag"])


def _named(match: re.Match[str]) -> str:
    lead = match["any"] or match["below"] or match["heading"] or ""
    return lead + QUOTED.format(match["speaker"] or match["role"] or match["part"])
