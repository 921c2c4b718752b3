"""Configuration files are edited as text: a key comes and goes, and all else stays as it is."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memoryd.setup.syntax import Fault, Syntax, nested, syntax
from memoryd.setup.syntax.toml import statements

ENTRY = {"command": "/opt/ä b/memoryd", "args": ["mcp", "--data-dir", "/x"], "enabled": True}
PATH = ("servers", "memoryd")

JSON = [
    '{"a":1}',
    '{"a": 1, "servers": {"x": {"command": "y"}}}',
    '{\n  "servers": {\n    "x": {\n      "command": "y"\n    }\n  },\n  "z": []\n}\n',
    '{\n\t"a": [1, 2.5e3, -0, true, null, "\\u00e9\\"}"]\n}',
    '{\r\n    "a": 1\r\n}\r\n',
    '{\n   "servers": {"x": {}}\n}',
    '{\n"a": 1}',
]
WITH_COMMENTS = [
    '// top\n{\n\t// c\n\t"a": 1, // one\n'
    '\t"servers": {\n\t\t"x": {}, // last\n\t\t// more\n\t},\n}\n',
    '{\r\n  "a": 1 // one\r\n  /* two\r\n  lines */\r\n}\r\n// end',
    '{"a": 1, /* c */ "b": {}, }',
    '{\n  "servers": {\n    // nothing yet\n  }\n}\n',
    '{"a": [1, 2,], // x\n}',
    '{\n  "a": "// no comment", /* "b": 1 */\n}\n',
]
TOML = [
    "",
    "# a comment\n",
    'model = "x" # why\n\n[servers.a]\ncommand = "b"\nargs = [\n  "]", # ]\n]\n\n# the end\n',
    "a = \"\"\"x\n[servers.memoryd]\n\"\"\"\r\nb = '''\n#'''\r\n",
    "servers.a.command = 'x'\n",
    '[servers]\n[servers."a.b"]\nenv = { X = "}" }\n',
    "[[list]]\na = 1\n[[list]]\na = 2\n",
    "quoted.\"a b\".'c' = 1979-05-27T07:32:00Z\n",
]
YAML = [
    "",
    "# a comment\n",
    "a: 1\n",
    "servers:\n  dev:\n    enabled: true # x\n  # after\nb: 2\n",
    "servers: {}\nb: 1\n",
    "servers: {a: {b: 1}}\n",
    "servers:\n    a: |\n        text: 1\n        # no comment\n\n    # c\nb: 1\n",
    "{a: 1}\n",
    "---\nbase: &b\n  x: 1\nservers:\n  y: *b\n",
    "servers:\r\n  x:\r\n  - a\r\n  - b\r\nc: 1\r\n",
    "servers:\n- not: a mapping\n".replace("- not", "  x:\n  - not"),
]
TEXTS = [
    *(("json", text) for text in JSON),
    *(("jsonc", text) for text in (*JSON, *WITH_COMMENTS)),
    *(("toml", text) for text in TOML),
    *(("yaml", text) for text in YAML),
]


def parents(rules: Syntax, text: str) -> int:
    """How many parents of the key are there already."""
    return int(isinstance(rules.parse(text).get("servers"), dict))


def with_entry(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "servers": {**(found.get("servers") or {}), "memoryd": ENTRY}}


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_an_entry_comes_and_goes_and_leaves_every_byte(name: str, text: str) -> None:
    rules = syntax(name)
    new = rules.put(text, PATH, ENTRY)
    assert rules.parse(new) == with_entry(rules.parse(text))
    assert list(rules.parse(new))[: len(rules.parse(text))] == list(rules.parse(text))
    if "servers: {}" not in text:  # only added to: what was there follows in its order
        rest = iter(new)
        assert all(character in rest for character in text)
    if "\n" not in text.replace("\r\n", ""):
        assert ("\r\n" in text) == ("\r\n" in new) or "\n" not in text
    assert rules.drop(new, PATH, parents(rules, text)) == text


ARRAYS = [
    "{}",
    '{"a":1}',
    '{"list":{"x":[]}}',
    '{"list": {"x": [1, {"y": [2]}]}, "z": 0}',
    '{\n  "list": {\n    "x": [\n      {"y": 1}\n    ]\n  }\n}\n',
    '{\r\n\t"list": {\r\n\t\t"x": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}',
    '{\n  "list": {"x": [{\n    "y": 1\n  }]}\n}\n',
]
ARRAYS_WITH_COMMENTS = [
    '{\n  "list": {\n    "x": [\n      1, // one\n      // more\n    ], // end\n  },\n}\n',
    '{"list": {"x": [1, /* two */ 2,]}}',
    '{\n  "list": {\n    "x": [\n      // none yet\n    ]\n  }\n}\n',
]


@pytest.mark.parametrize(
    ("name", "text"),
    [("json", text) for text in ARRAYS] + [("jsonc", t) for t in (*ARRAYS, *ARRAYS_WITH_COMMENTS)],
)
def test_an_element_of_an_array_comes_and_goes_and_leaves_every_byte(name: str, text: str) -> None:
    rules = syntax(name)
    there = (rules.parse(text).get("list") or {}).get("x")
    path = ("list", "x", len(there or []))
    new = rules.put(text, path, ENTRY)
    assert rules.parse(new)["list"]["x"] == [*(there or []), ENTRY]
    rest = iter(new)
    assert all(character in rest for character in text)  # only added to
    assert rules.drop(new, path, 0 if there is None else 2) == text
    other = rules.put(new, (*path, "command"), "x")
    assert rules.parse(other)["list"]["x"][-1] == {**ENTRY, "command": "x"}


def test_every_element_of_an_array_can_go() -> None:
    rules = syntax("jsonc")
    text = '{\n  "x": [\n    1, // one\n    {"a": 2}, // two\n    3 // three\n  ]\n}\n'
    for place in range(3):
        left = rules.parse(rules.drop(text, ("x", place), 1))["x"]
        assert left == [item for at, item in enumerate([1, {"a": 2}, 3]) if at != place]
    assert rules.parse(rules.drop('{"x": [1], "y": 2}', ("x", 0), 0)) == {"y": 2}
    assert rules.drop(text, ("x", 3), 0) == text


@pytest.mark.parametrize("path", [("x", "a"), ("y", 0), ("x", 0, 0)])
def test_a_path_that_does_not_fit_is_refused(path: tuple[str | int, ...]) -> None:
    with pytest.raises(Fault, match=r"an (array|object) is expected here"):
        syntax("json").put('{"x": [1], "y": {}}', path, ENTRY)


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_an_entry_is_replaced(name: str, text: str) -> None:
    rules = syntax(name)
    old = rules.put(text, PATH, {"command": "old", "args": ["x"]})
    assert rules.parse(rules.put(old, PATH, ENTRY)) == with_entry(rules.parse(text))


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_what_is_not_there_is_not_removed(name: str, text: str) -> None:
    assert syntax(name).drop(text, PATH, 0) == text


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("json", "{", 1),
        ("json", '{\n"a": 1,\n}', 3),
        ("json", '{\n// no\n"a": 1}', 2),
        ("json", '{"a": 1}\n\nx', 3),
        ("json", '{"a": NaN}', 1),
        ("json", "[]", 1),
        ("json", '{"a": "\n"}', 1),
        ("jsonc", '{"a": 1 /* }', 1),
        ("jsonc", '{\n"a" 1}', 2),
        ("jsonc", '{"a": 1,, "b": 2}', 1),
        ("jsonc", '{"a":' * 100_000, 1),
        ("json", '{"a": ' + "9" * 5000 + "}", 1),
        ("toml", "a = " + "9" * 5000, 1),
        ("yaml", "a: " + "9" * 5000, 1),
        ("yaml", "[" * 5000, 1),
        ("toml", "a = 1\nb = \n", 2),
        ("toml", "a = 1\na = 2\n", 2),
        ("yaml", "a: 1\nb: [\n", 3),
        ("yaml", "- a\n", 1),
        ("yaml", "a: 1\n\tb: 2\n", 2),
        ("yaml", "a: !!python/object:os.system 1\n", 1),
        ("yaml", "a: 1\n---\nb: 1\n", 2),
    ],
)
def test_a_broken_text_is_refused_with_its_line(name: str, text: str, line: int) -> None:
    with pytest.raises(Fault) as caught:
        syntax(name).parse(text)
    assert caught.value.line == line
    assert caught.value.why


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", '{"servers": []}'),
        ("json", '{"servers": null}'),
        ("json", '{"servers": {"memoryd": 1, "memoryd": 2}}'),
        ("jsonc", '{"servers": {}, "servers": {}}'),
        ("toml", "servers = {a = {command = 'x'}}\n"),
        ("yaml", "servers: 1\n"),
        ("yaml", "servers: {}\nservers: {}\n"),
    ],
)
def test_what_cannot_take_an_entry_is_refused(name: str, text: str) -> None:
    with pytest.raises(Fault):
        syntax(name).put(text, PATH, ENTRY)


def test_parents_go_only_if_they_hold_nothing_else() -> None:
    rules = syntax("jsonc")
    assert rules.drop('{"a": 1, "servers": {"memoryd": {}}}', PATH, 0) == '{"a": 1}'
    assert rules.drop('{"a": 1, "servers": {"memoryd": {}}}', PATH, 1) == '{"a": 1, "servers": {}}'
    commented = '{\n  "servers": {\n    // mine\n    "memoryd": {}\n  }\n}\n'
    assert rules.drop(commented, PATH, 0) == '{\n  "servers": {\n    // mine\n  }\n}\n'
    first = '{"servers": {"memoryd": {}, "x": 1}}'
    assert rules.drop(first, PATH, 0) == '{"servers": {"x": 1}}'
    shared = '{"servers": { // mine\n "memoryd": {}, "x": 1}}'
    assert rules.parse(rules.drop(shared, PATH, 0)) == {"servers": {"x": 1}}
    rules = syntax("yaml")
    assert rules.drop("servers:\n  memoryd:\n    a: 1\n", PATH, 0) == ""
    assert rules.drop("servers:\n  memoryd:\n    a: 1\n", PATH, 1) == "servers: {}\n"


def test_tables_of_an_entry_go_with_it() -> None:
    text = "[servers.memoryd]\ncommand = 'x'\n[servers.memoryd.env]\nA = 'b'\n[other]\n"
    assert syntax("toml").drop(text, PATH, 0) == "[other]\n"
    dotted = "[servers]\nmemoryd.command = 'x'\nmemoryd.args = [\n]\na.command = 'y'\n"
    assert syntax("toml").drop(dotted, PATH, 0) == "[servers]\na.command = 'y'\n"


def test_an_entry_looks_like_its_neighbours() -> None:
    """Indentation and lines are those of the file."""
    text = '{\n\t"servers": {\n\t\t"x": {}\n\t}\n}\n'
    assert syntax("json").put(text, PATH, {"command": "m"}) == (
        '{\n\t"servers": {\n\t\t"x": {},\n\t\t"memoryd": {\n\t\t\t"command": "m"\n\t\t}\n\t}\n}\n'
    )
    new = syntax("yaml").put("a:\n    b: 1\n", PATH, {"cmd": "m"})
    assert new == "a:\n    b: 1\nservers:\n    memoryd:\n        cmd: m\n"


# Random documents: keys and texts with what a syntax might trip over.
texts = st.text(st.sampled_from("ab \"'\\/*#:{}[],-\n\té€😀"), max_size=8)
keys = st.sampled_from(["servers", "a", "b c", "memory"]) | texts
scalars = st.booleans() | st.integers(-9, 10**6) | st.floats(-1e6, 1e6) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(keys, values, max_size=4).map(
    lambda found: {**found, "servers": {}} if not isinstance(found.get("servers"), dict) else found
) | st.dictionaries(keys.filter(lambda key: key != "servers"), values, max_size=4)
blanks = st.sampled_from(["", " ", "\n", "\r\n  ", "\t"])
comments = st.sampled_from(['// "x": {\n', "/* } */", "//\r\n", "/*\n,*/"])


@st.composite
def json_texts(draw: st.DrawFn, lenient: bool) -> str:
    """A document, written with any blanks, and with comments and commas if they are allowed."""

    def gap() -> str:
        return draw(blanks) + (draw(comments | blanks) if lenient else "") + draw(blanks)

    def written(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        is_object = isinstance(value, dict)
        parts = [
            f"{gap()}{json.dumps(part)}{gap()}:{gap()}{written(value[part])}{gap()}"
            if is_object
            else f"{gap()}{written(part)}{gap()}"
            for part in value
        ]
        last = "," + gap() if lenient and parts and draw(st.booleans()) else ""
        inner = ",".join(parts) + last if parts else gap()
        return f"{{{inner}}}" if is_object else f"[{inner}]"

    return gap() + written(draw(documents)) + gap()


def round_trip(name: str, text: str) -> None:
    """Adding and removing gives back an equal document; in between the entry and all else is
    there."""
    rules = syntax(name)
    before = rules.parse(text)
    new = rules.put(text, PATH, ENTRY)
    assert rules.parse(new) == with_entry(before)
    assert rules.parse(rules.put(new, PATH, ENTRY)) == rules.parse(new)
    after = rules.drop(new, PATH, parents(rules, text))
    assert rules.parse(after) == before


@given(json_texts(lenient=False))
def test_any_json(text: str) -> None:
    assert syntax("json").parse(text) == json.loads(text)
    round_trip("json", text)


@given(json_texts(lenient=True))
def test_any_json_with_comments(text: str) -> None:
    round_trip("jsonc", text)


@pytest.mark.slow
@given(documents, st.booleans(), st.sampled_from([2, 4, 7]), st.sampled_from(["\n", "\r\n"]))
def test_any_yaml(value: dict[str, Any], flow: bool, indent: int, end: str) -> None:
    style = None if flow else False
    text = yaml.safe_dump(value, default_flow_style=style, indent=indent, allow_unicode=True)
    text = "".join(f"{line}{end}" for line in ["# first", *text.split("\n")[:-1], "# last"])
    assert syntax("yaml").parse(text) == yaml.safe_load(text)
    round_trip("yaml", text)


def toml_text(value: dict[str, Any]) -> str:
    """A document as tables; inline below the second level."""

    def said(item: Any) -> str:
        if isinstance(item, dict):
            return "{" + ", ".join(f"{said(k)} = {said(v)}" for k, v in item.items()) + "}"
        if isinstance(item, list):
            return "[ # ]\n" + "".join(f"  {said(each)}, # [\n" for each in item) + "]"
        return json.dumps(item, ensure_ascii=False)

    plain = [f"{said(k)} = {said(v)} # [x]" for k, v in value.items() if not isinstance(v, dict)]
    for key, table in value.items():
        if not isinstance(table, dict):
            continue
        plain += ["", f"[{said(key)}]"]
        plain += [f"{said(k)} = {said(v)}" for k, v in table.items() if not isinstance(v, dict)]
        for inner, deep in table.items():
            if isinstance(deep, dict):
                plain += [f"  [ {said(key)} . {said(inner)} ] # x"]
                plain += [f"  {said(k)} = {said(v)}" for k, v in deep.items()]
    return "\n".join([*plain, ""])


@given(documents)
def test_any_toml(value: dict[str, Any]) -> None:
    text = toml_text(value)
    assert tomllib.loads(text) == value
    top = {statement.path[0] for statement in statements(text)}
    assert top == value.keys()
    round_trip("toml", text)


def test_nested_puts_a_value_below_its_keys() -> None:
    assert nested(("a", "b"), {"c": 1}) == {"a": {"b": {"c": 1}}}
