"""A word of a query as a regular expression: it must find every form of the word."""

from __future__ import annotations

import re

import pytest

from memoryd.engine.index.terms import terms
from memoryd.engine.thin.patterns import patterns

FORMS = (
    ("study", "Studies"),
    ("studies", "study"),
    ("making", "MAKE"),
    ("make", "making"),
    ("possible", "possibility"),
    ("companies", "company"),
    ("organization", "organize"),
    ("cafe", "Café"),
    ("Straße", "strasse"),
    ("naïve", "naive"),
    ("parse_config.py", "parsing it"),
    ("strasse", "Straße"),
    ("C++", "c++"),
    ("3.11", "Python 3.11"),
    ("\u6771\u4eac", "\u6771\u4eac\u306b\u884c\u304f"),
)


@pytest.mark.parametrize(("query", "text"), FORMS)
def test_a_text_that_shares_a_term_is_found(query: str, text: str) -> None:
    assert set(terms(query)) & set(terms(text)), "they share no term"
    assert any(re.search(one.regex, text) for one in patterns(query))


def test_words_that_say_nothing_are_left_out_unless_there_is_no_other() -> None:
    assert len(patterns("What is the port?")) == 1
    assert patterns("who are you")
    assert patterns("?!") == []


def test_signs_of_a_query_are_taken_literally() -> None:
    for one in patterns("a.b* (c|d) [e] $f ^g \\w+"):
        assert not re.search(one.regex, "zzz")
