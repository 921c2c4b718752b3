"""How the parts of a client call the daemon."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
Answer = TypeVar("Answer")
# Calls a tool by its name. Arguments that are None are not sent.
Tool = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


class Run(Protocol):
    """Runs a call on the event loop of a client, from another thread, and waits for its result."""

    def __call__(
        self,
        call: Callable[P, Coroutine[Any, Any, Answer]],
        /,
        *given: P.args,
        **options: P.kwargs,
    ) -> Answer: ...
