"""Readable names of archives: the day, and the words that name the topic."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo

from memoryd.engine.index.terms import QUIET_WORDS
from memoryd.engine.sessions.said import Said, day, shortened
from memoryd.labels import has_hidden, normal_name

MAX_TITLE = 60  # characters
LONGEST = 4  # words
MAX_TEXT = 2_000  # characters of a message that are read
ONCE = 0.5  # factor of a phrase with a word that is said in one message only
PLAIN = "Conversation"
WORD = re.compile(r"[^\W_][\w'\u2019-]*")
BREAK = re.compile(r"[^\w\s'\u2019-]+|\n+")  # no phrase goes across
# What is said in every conversation, in the languages that are most often written.
COMMON = frozenset(
    (
        *QUIET_WORDS,
        *"""like want need know think get got make let see okay yes hello hi hey thanks thank good
        great sure really very much more most only still now today im ive id ill dont doesnt didnt
        cant wont thats its lets going use using used one two new please ok well right
        i'm i've i'd i'll don't doesn't didn't can't won't that's it's let's up out all
        der die das den dem des ein eine einen einem einer und oder aber ich du er sie es wir ihr
        mich mir dich dir uns euch ist sind war waren hat haben habe hatte wird werden nicht kein
        mit von zu zum zur auf in im am an bei nach aus wie was wer wo wann warum dass wenn auch
        noch nur schon sehr bitte danke ja nein kann soll muss mein meine dein
        le la les un une des du de et ou mais je tu il elle nous vous ils elles est sont pas ne
        que qui quoi dans sur pour avec par ce cette ces mon ma mes ton ta tes son sa ses oui non
        merci suis ai avons
        el los las una unos unas y o pero yo ella nosotros es son no que quien en con por para
        mi mis tu tus su sus si gracias como muy este esta estoy soy
        il lo gli e ma io lui lei noi voi sono non che chi di da con per mio mia grazie
        o os as um uma uns umas eu ele ela nao para meu minha obrigado""".split(),
    )
)


def title_of(said: Sequence[Said]) -> str:
    """A few words that name the topic of a session."""
    phrases = Counter[str]()
    shown: dict[str, str] = {}
    words = Counter[str]()
    for one in said:
        seen = set[str]()
        for phrase in _phrases(one.text[:MAX_TEXT]):
            key = phrase.casefold()
            if key not in seen:
                seen.add(key)
                phrases[key] += 1
                shown.setdefault(key, phrase)
        words.update(key for key in seen if " " not in key)
    if not phrases:
        return PLAIN
    scores = {key: _score(key, phrases[key], words, len(said)) for key in phrases}
    ranked = sorted(phrases, key=lambda key: (-scores[key], key))
    title = shown[ranked[0]]
    if " " not in title:  # one word says little: add the next one
        others = [key for key in ranked[1:] if " " not in key and words[key] > 1]
        title = ", ".join([title, *(shown[key] for key in others[:1])])
    return shortened(title[0].upper() + title[1:], MAX_TITLE)


def _phrases(text: str) -> Iterator[str]:
    """Runs of one to four words that begin and end with a word that says something."""
    for part in BREAK.split(text):
        found = WORD.findall(part)
        for start in range(len(found)):
            for end in range(start + 1, min(start + LONGEST, len(found)) + 1):
                run = found[start:end]
                quiet = [word.casefold() in COMMON or len(word) < 2 for word in run]
                if not quiet[0] and not quiet[-1] and sum(quiet) <= 1:
                    yield " ".join(run)


def _score(phrase: str, count: int, words: Counter[str], total: int) -> float:
    """High for what is said in several messages, of more than one word, but not in all messages."""
    telling = [word for word in phrase.split(" ") if word not in COMMON]
    weight = sum(_telling(word, words[word], total) for word in telling)
    if count == 1 and any(words[word] == 1 for word in telling):
        weight *= ONCE
    return weight * (1.0 + math.log(count)) / math.sqrt(1.5 + len(telling))


def _telling(word: str, count: int, total: int) -> float:
    share = count / max(1, total)
    usual = 1.0 - 0.7 * share if total > 3 else 1.0
    size = min(1.0, 0.4 + 0.12 * len(word))
    return (1.0 + math.log(max(1, count))) * usual * size * (0.5 if word.isdecimal() else 1.0)


def archive_name(title: str | None, said: Sequence[Said], zone: tzinfo | None) -> str:
    """The name of an archive of these messages: "2026-11-18 Trip to Lisbon"."""
    named = " ".join(normal_name(title or "").split())
    if not named or has_hidden(named):
        named = title_of(said)
    name = f"{day(max(one.at for one in said), zone)} {shortened(named, MAX_TITLE)}"
    return name if not has_hidden(name) else f"{day(said[-1].at, zone)} {PLAIN}"
