"""JSON as its standard says: a comment or a trailing comma is a fault."""

from __future__ import annotations

from functools import partial

from memoryd.setup.syntax import jsonc

parse = partial(jsonc.parse, lenient=False)
put = partial(jsonc.put, lenient=False)
drop = partial(jsonc.drop, lenient=False)
