"""YAML, with the places of its nodes as PyYAML's own parser gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from memoryd.setup.syntax import Fault, nested, newline

Pair = tuple[yaml.Node, yaml.Node]
DEFAULT_INDENT = 2
ANY_WIDTH = 100_000  # no line is folded


def parse(text: str) -> dict[str, Any]:
    """The mapping of a text; empty if it has none. Raises Fault."""
    root = _root(text)
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as exc:
        raise _fault(text, exc) from None
    if root is not None and not isinstance(found, dict | None):
        raise Fault(text, root.start_mark.index, "a mapping is expected here")
    return found or {}


def put(text: str, path: Sequence[str], value: dict[str, Any]) -> str:
    """The text with this value at this path; one that is there is removed first."""
    text = drop(text, path, len(path))
    root = _root(text)
    if not isinstance(root, yaml.MappingNode):
        return _add_lines(text, len(text), nested(path, value), 0, DEFAULT_INDENT)
    unit = _unit(root)
    above: Pair | None = None
    node: yaml.Node = root
    for depth, key in enumerate(path):
        if not isinstance(node, yaml.MappingNode) or (node.flow_style and not node.value):
            assert above is not None or node is root
            return _fill(text, above, node, nested(path[depth:], value), unit)
        pair = _find(text, node, key)
        if pair is None:
            return _insert(text, node, nested(path[depth:], value), unit)
        above, node = pair, pair[1]
    raise AssertionError("it was removed before")


def drop(text: str, path: Sequence[str], keep: int) -> str:
    """The text without this key, and without the parents that are empty then, from `keep` on."""
    node = _root(text)
    chain: list[tuple[yaml.MappingNode, Pair]] = []
    for key in path:
        if not isinstance(node, yaml.MappingNode) or (pair := _find(text, node, key)) is None:
            return text
        chain.append((node, pair))
        node = pair[1]
    while len(chain) - 1 > keep and len(chain[-1][0].value) == 1:
        chain.pop()
    mapping, pair = chain[-1]
    if mapping.flow_style:
        return _without_in_flow(text, mapping, pair)
    start, end = _line_start(text, pair[0]), _line_end(text, pair)
    if len(mapping.value) > 1 or len(chain) == 1:
        return text[:start] + text[end:]
    colon = text.index(":", chain[-2][1][0].end_mark.index) + 1
    return text[:colon] + " {}" + text[colon:start] + text[end:]


def _root(text: str) -> yaml.Node | None:
    try:
        found: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError) as exc:
        raise _fault(text, exc) from None
    except RecursionError:
        raise Fault(text, 0, "it is nested too deeply") from None
    return found


def _fault(text: str, exc: Exception) -> Fault:
    mark = getattr(exc, "problem_mark", None)
    fault = Fault(text, 0, getattr(exc, "problem", None) or str(exc).partition("\n")[0])
    fault.line = mark.line + 1 if mark else 1
    return fault


def _find(text: str, mapping: yaml.MappingNode, key: str) -> Pair | None:
    """The pair of this key. Fault if there are two."""
    found = [pair for pair in mapping.value if _is_key(pair[0], key)]
    if len(found) > 1:
        raise Fault(text, found[1][0].start_mark.index, f"the key {key!r} is there twice")
    return found[0] if found else None


def _is_key(node: yaml.Node, key: str) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == key


def _unit(root: yaml.MappingNode) -> int:
    """By how many blanks this text indents."""
    for key, value in root.value:
        if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
            below: int = value.value[0][0].start_mark.column - key.start_mark.column
            return below if below > 1 else DEFAULT_INDENT
    return DEFAULT_INDENT


def _insert(text: str, mapping: yaml.MappingNode, value: dict[str, Any], unit: int) -> str:
    """The text with one more pair at the end of a mapping that has some."""
    last: Pair = mapping.value[-1]
    if mapping.flow_style:
        at = max(last[0].end_mark.index, last[1].end_mark.index)
        return f"{text[:at]}, {json.dumps(value, ensure_ascii=False)[1:-1]}{text[at:]}"
    return _add_lines(text, _line_end(text, last), value, mapping.start_mark.column, unit)


def _fill(text: str, above: Pair | None, node: yaml.Node, value: dict[str, Any], unit: int) -> str:
    """The text with the first pairs of a mapping that is empty: `{}`, or nothing at all."""
    start, end = node.start_mark.index, node.end_mark.index
    is_empty = isinstance(node, yaml.MappingNode) or (
        isinstance(node, yaml.ScalarNode) and not text[start:end].strip()
    )
    if not is_empty:
        raise Fault(text, start, "a mapping is expected here")
    on_one_line = above is not None and "\n" not in text[above[0].end_mark.index : start]
    if above is None or not on_one_line or _in_flow(text, above[0]):
        said = json.dumps(value, ensure_ascii=False)
        return text[:start] + said + text[end:]
    head = text[:start].rstrip(" ") if start < end else text[:start]
    rest = text[end:]
    at = len(head) + (rest.index("\n") + 1 if "\n" in rest else len(rest))
    column = above[0].start_mark.column + unit
    return _add_lines(head + rest, at, value, column, unit)


def _in_flow(text: str, key: yaml.Node) -> bool:
    """Whether a key is not the first on its line: then lines cannot be put below it."""
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    return bool(text[start : key.start_mark.index].strip())


def _add_lines(text: str, at: int, value: dict[str, Any], column: int, unit: int) -> str:
    """The text with a mapping in lines of its own, this far indented."""
    end = newline(text)
    said = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=ANY_WIDTH, indent=unit)
    lines = "".join(" " * column + line + end for line in said.splitlines())
    before = end if at and text[at - 1] != "\n" else ""
    return text[:at] + before + lines + text[at:]


def _without_in_flow(text: str, mapping: yaml.MappingNode, pair: Pair) -> str:
    index = mapping.value.index(pair)
    start, end = pair[0].start_mark.index, max(m.end_mark.index for m in pair)
    if index:
        start = max(m.end_mark.index for m in mapping.value[index - 1])
    elif len(mapping.value) > 1:
        end = mapping.value[1][0].start_mark.index
    return text[:start] + text[end:]


def _line_start(text: str, key: yaml.Node) -> int:
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    if text[start : key.start_mark.index].strip():
        raise Fault(text, key.start_mark.index, "this key shares its line with another")
    return start


def _line_end(text: str, pair: Pair) -> int:
    """Where the last line of a pair ends."""
    # An alias has the place of its anchor, which is before its key.
    at = max(pair[0].end_mark.index, _node_end(pair[1]))
    if at and text[at - 1] == "\n":  # a block of text ends with its line
        return at
    line = re.compile(r"[^\n]*\n?").match(text, at)
    return line.end() if line else at


def _node_end(node: yaml.Node) -> int:
    """Where a node ends. PyYAML says of a block of nodes only where the next begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        inner = last if isinstance(last, tuple) else (last,)
        return max(_node_end(part) for part in inner)
    end: int = node.end_mark.index
    return end
