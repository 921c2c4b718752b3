"""What a value looks like: a secret, a word, or a placeholder for a secret."""

from __future__ import annotations

import re

RUN = re.compile(r"[A-Za-z0-9]{8,}+")
PLACEHOLDER = re.compile(
    r"[*x•●.…#?:_-]*+"  # **** and the like
    r"|[<\[{(].*"  # <your-key>, [secret removed: ...], {{ token }}
    r"|%\w+%|%\(\w+\)s|\$\w+|\$[({].*"  # %TOKEN%, $TOKEN, ${TOKEN}, $(command)
    r"|.*(?:your[ _-]|change[ _-]?me|placeholder|redacted|example|dummy).*",
    re.I | re.S,
)
CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[].*|[A-Za-z_]\w*\).+"  # a call or an index
    r"|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"  # names within names
    r"|[a-z]+://.*|(?:arn|env|vault|file|ssm|ref):.*|!\w+"  # where it is kept
    r"|\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./](?:\d{2,4})?|\d{1,3}[-–]\d{1,3}"  # dates, ranges  # noqa: RUF001
    r"|\d+%.*|\d+-?(?:bit|char|day|digit|hour|word|stellig|mal|fach|zeichen|carac|cifr|chiffr).*",
    re.I | re.S,
)
PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.@-]+)+/?|[A-Za-z]:\\.*")
WORD = re.compile(r"[^\W\d_]+(?:['’_-][^\W\d_]+)*+")  # noqa: RUF001
LETTERS = re.compile(r"[A-Za-z_.-]+")
NAME = re.compile(r"pass|pwd|secret|token|key|credential|value|str|type|env", re.I)
SENTENCE = re.compile(
    r"\b(?:a|an|and|are|as|at|be|by|can|characters?|enter|for|from|has|have|in|is|it|must|no|not"
    r"|of|on|or|please|see|should|that|the|this|to|use|will|with|you|your)\b",
    re.I,
)
# Words that describe a password, or where it is, besides those that end in SUFFIXES.
ORDINARY = frozenset(
    "1password above again any auth authentication bad basic below best bitwarden blank bool "
    "boolean bytes case-sensitive complex correct default different email empty false fine gone "
    "good here important incorrect invalid keepass kept known lastpass long lost missing nil none "
    "null number numeric object okay only optional pending private public random safe same secure "
    "short simple strong sufficient text there true unclear undefined unique unknown unset valid "
    "weak wrong zero "
    # German, French, Spanish and Italian.
    "abgelaufen bekannt erforderlich falsch fehlt geheim gleich keines korrekt leer pflicht "
    "richtig sicher unbekannt anders folgendermaßen "
    "aucun correct expiré faux inconnu invalide modifié obligatoire oublié perdu requis sécurisé "
    "vide "
    "caducada correcta desconocida incorrecta inválida ninguna obligatoria olvidada requerida "
    "secreta segura vacía "
    "cambiata corretta dimenticata errata nessuna obbligatoria richiesta sbagliata scaduta segreta "
    "sicura vuota".split()
)
HEX_KEY = re.compile(
    r"(?:0x)?(?:[0-9a-f]{32}|[0-9a-f]{48}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})", re.I
)
SUFFIXES = ("ed", "ing", "able", "ible", "less", "en")


def is_random(text: str) -> bool:
    """Whether letters and digits are mixed in one run, as in no word."""
    return any(not run.isalpha() and not run.isdigit() for run in RUN.findall(text))


def is_random_letters(text: str) -> bool:
    """Whether letters look random: no capitals at all, or many more than a name has."""
    large = sum(c.isupper() for c in text)
    return text.isalpha() and len(set(text)) >= 6 and (large == 0 or large * 4 >= len(text))


def is_hex_key(text: str) -> bool:
    """Whether it has as many hexadecimal digits as a key; 40 are a git hash."""
    return HEX_KEY.fullmatch(text) is not None and is_random(text)


def is_placeholder(text: str) -> bool:
    """Whether it is a placeholder for a secret: `****`, `${TOKEN}`, `<your-key>`."""
    return PLACEHOLDER.fullmatch(text) is not None


def is_reference(text: str) -> bool:
    """Whether it is a placeholder, code, a path or a date: not a secret itself."""
    if is_placeholder(text) or CODE.fullmatch(text):
        return True
    # A path, and not base64 that begins with a slash.
    return PATH.fullmatch(text) is not None and not is_random(text)


def is_word(text: str) -> bool:
    """Whether it consists of letters only, like a word or an identifier."""
    return WORD.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether it is the name of a secret: `db_password`, `TOKEN`."""
    return LETTERS.fullmatch(text) is not None and NAME.search(text) is not None


def is_ordinary(text: str) -> bool:
    """Whether people use the word to describe a secret: `expired`."""
    word = text.lower()
    return word in ORDINARY or (word.isalpha() and word.endswith(SUFFIXES))


def is_phrase(text: str) -> bool:
    """Whether it is a row of 2 to 24 words that do not look like a sentence."""
    return 2 <= len(text.split()) <= 24 and SENTENCE.search(text) is None
