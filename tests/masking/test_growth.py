"""Time in proportion to the length, whatever a text is made of: what is twice as long may not take
four times as long. Processor time of this thread is compared with itself, so a busy machine does
not count."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable

import pytest

from memoryd.engine.index.terms import numbers, terms
from memoryd.masking.mask import MARK, mask
from memoryd.normalise import MAX_MARKS, normalized
from memoryd.sanitize import as_data

SHORT, TIMES = 4_000, 8  # characters, and how many times as many
MOST = 3.0 * TIMES  # times as long; by the square it would be 64
LEAST = 0.002  # seconds: less is too little to compare

UNITS = [
    *("login a password ", "login a ", "password='", "password for ", "password of a is "),
    *("phrase for ", "phrase de l'", "passphrase: ab ab ", "mnemonic is ab cd ", "PIN for a "),
    *("set password to ", "set password to ab12 ", "password=your ", "password=a,", "PIN of "),
    *("password=a.b.", "password=/a/", "password=a(", "password=$(", "password=1-", "password=,"),
    *(
        'password "',
        "password=`",
        "password „a",
        "key de la ",
        "api key=",
        "dedupaaaa",
        "a1b2c3d4 ",
    ),
    *("密码是", "пароль ", "密码 是 ", "token to ", "key key ", "[secret removed: password]"),
    *("://a:", "://a:b@", "curl -u a:", "mysql a ", "mysql -p", "sshpass -p ", "Cookie: a="),
    *("-----BEGIN PRIVATE KEY-----", "-----END ", "-", "Private-Lines: 1\nAAAA\n", "a=b;"),
    *("eyJ", "eyJaaaaaaaa.", "eyJaaaaaaaa..", "sk-", "M" * 24 + ".", "AKIA", "xoxb-", "SG."),
    *("0" * 32 + "-us", "123456789:AA", "aaaaaaaaaa.atlasv1.", "$argon2id$", "$6$a$", "glsa_"),
    *("scrypt$a$", "sessid=", "?sig=", "Bearer ", "Authorization: Basic ", "aaa8Q~", "pbkdf2$1$"),
    *("\u0300\u0327", "a\u0323\u0301", "\u0327\u0300\u0323", "\ufdfa", "\uff4cogin a password "),
    *("1,000,", "1 ", "a/b.c-d_", "aB", "<|im_start|>", "\x1b[", "e\u0301", "\u1100\u1161"),
]


def spent(work: Callable[[str], object], text: str) -> float:
    found = []
    for _ in range(2):
        started = time.thread_time()
        work(text)
        found.append(time.thread_time() - started)
    return min(found)


@pytest.mark.slow
@pytest.mark.parametrize("work", [mask, terms, numbers, as_data])
def test_time_grows_with_the_length_and_not_faster(work: Callable[[str], object]) -> None:
    found = {}
    for unit in UNITS:
        short, long = (
            spent(work, (unit * (size // len(unit) + 1))[:size]) for size in (SHORT, SHORT * TIMES)
        )
        found[unit] = long / max(short, LEAST)
    assert {unit: ratio for unit, ratio in found.items() if ratio > MOST} == {}


def test_a_marker_is_not_masked_again() -> None:
    once = mask("login a password " * 100)
    assert len(once.text) < 4 * len("login a password " * 100)
    assert mask(once.text).text == once.text
    assert "removed: password] removed" not in once.text
    assert mask("login bob password hunter22").text == f"login bob password {MARK}password]"


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFKD"])
def test_what_people_write_is_normalised_as_ever(form: str) -> None:
    texts = (
        "plain",
        "e\u0301\u0323 ｗｉｄｅ ﬁ",  # noqa: RUF001
        "\u1112\u1161\u11ab",
        "😀" * 100 + "e\u0301",
        "z" + "\u0300\u0327" * (MAX_MARKS // 2),
        "क्षि" * 50,
    )
    for text in texts:
        assert normalized(form, text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]
