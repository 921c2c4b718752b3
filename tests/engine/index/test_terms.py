"""Terms: words, identifiers by whole and by part, scripts without spaces; never an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.index.terms import LONGEST, QUIET, term, terms
from tests.costs import costs_its_length


def shared(query: str, text: str) -> int:
    return len(set(terms(query)) & set(terms(text)))


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("call getUserId first", ["getUserId", "getuserid", "user", "get_user_id"]),
        ("set max_line_bytes here", ["max_line_bytes", "line", "maxLineBytes", "MAX_LINE_BYTES"]),
        ("in /usr/local/bin/foo.py", ["/usr/local/bin/foo.py", "foo.py", "local", "foo"]),
        (r"in C:\Users\anna\notes.txt", [r"C:\Users\anna\notes.txt", "notes.txt", "anna"]),
        ("runs v1.24.3 now", ["v1.24.3", "1.24.3", "1.24"]),
        (
            "mail anna.berg@example.org",
            ["anna.berg@example.org", "anna.berg", "example.org", "berg"],
        ),
        (
            "call +43 660 123 45 67 or (0316) 873-1234",
            ["436601234567", "+43 660 1234567", "43/660/1234567", "0316 873 1234", "03168731234"],
        ),
        ("an HTTPServer in utf8", ["HTTPServer", "http server", "utf8", "utf"]),
        ("see https://example.org/a/page", ["https://example.org/a/page", "example.org", "page"]),
        ("error E1234-7 again", ["E1234-7", "1234"]),
        ("written in C++ and C#", ["C++", "C#"]),
        ("it cost 1,000 euros", ["1,000", "1000"]),
        ("Caroline's garden", ["caroline", "gardens", "Caroline\u2019s"]),
        ("he didn't go", ["didnt", "didn\u2019t"]),
        ("Café Müller", ["cafe", "CAFÉ", "muller", "Müller"]),
        ("\uff26\uff35\uff2c\uff2c width", ["full"]),
        ("東京は大きい都市です", ["東京", "大きい", "都市"]),
        ("我喜欢吃苹果", ["苹果", "喜欢"]),
        ("서울에서 만나요", ["서울", "만나"]),
        ("ฉันชอบกินข้าว", ["กินข้าว"]),
        ("हिन्दी भाषा", ["हिन्दी"]),
        ("Она любит чай", ["ЧАЙ", "любит"]),
        ("launch 🚀 today", ["🚀"]),
        ("running quickly", ["run", "runs"]),
        ("an e-mail of 2019-09-21 to the U.S.A.", ["email", "20190921", "USA"]),
        ("\u0141\u00f3d\u017a and \u00d8rsted", ["lodz", "orsted"]),
        ("room \u0663\u0664\u0665", ["345"]),
        ("\u0639\u064e\u0627\u0635\u0650\u0645\u064e\u0629", ["\u0639\u0627\u0635\u0645\u0629"]),
        ("PATH=" + "/usr/local/bin:" * 30 + "/opt/xylograph/bin", ["xylograph"]),
        ("\u6211" * 300 + "\u8774\u8776", ["\u8774\u8776"]),
    ],
)
def test_what_is_written_is_found_by_whole_and_by_part(text: str, queries: list[str]) -> None:
    for query in queries:
        assert shared(query, text) > 0, query


def test_a_whole_identifier_counts_for_more_than_its_parts() -> None:
    assert shared("max_line_bytes", "the max_line_bytes setting") > shared(
        "max_line_bytes", "the line has bytes at max"
    )


def test_different_words_are_different_terms() -> None:
    assert not shared("cat", "dog category")
    assert not shared("1.2", "12 21")
    assert not shared("東京", "大阪")


def test_words_that_carry_little_are_terms_all_the_same() -> None:
    assert len(terms("to be or not to be")) == 6
    assert shared("the who", "The Who played") == 2
    assert set(terms("what did the")) <= QUIET
    assert not set(terms("robot garden")) & QUIET


@pytest.mark.parametrize("text", ["", "   ", "...!?", "\n\t", '"', "\0", "(((", "\u200b"])
def test_text_without_words_has_no_terms(text: str) -> None:
    assert terms(text) == []


def test_data_in_one_piece_is_bounded() -> None:
    assert len(terms("aA1" * 100_000)) < 2 * LONGEST


@pytest.mark.parametrize("piece", ["0", "1 ", "12 (3", "12.", "1   ", "aA1", "a.b/", "'s", "東"])
@pytest.mark.slow
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    assert costs_its_length(terms, piece)


def test_terms_are_the_same_in_every_process() -> None:
    assert term("cat") == 0x3327DD2C7B9D982F


@given(st.text())
def test_any_text_has_terms_and_the_same_ones_again(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert all(0 <= number < 2**64 for number in found)
    # What is asked in the same words is always found.
    assert set(terms(f"{text} and more")) >= set(terms("more"))
