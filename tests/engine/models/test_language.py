"""The language model: one call at a time, bounded, and used again once it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio
import pytest
from structlog.testing import capture_logs

from memoryd.engine.models.language import PROGRAM, Language
from memoryd.errors import EmbedError, ModelUnavailable, TextRefused
from memoryd.settings import LlmSettings

LIMIT = 10.0  # seconds after which a test has failed


class Model:
    """A language model of which each answer is released by the test."""

    name = "qwen at http://one"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[Mapping[str, str]]] = []
        self.at_once = self.most = 0
        self.released: anyio.Event | None = None

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        self.asked.append(messages)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.released is not None:
                await self.released.wait()
        finally:
            self.at_once -= 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def language(model: Model, timeout: float = LIMIT) -> Language:
    return Language(LlmSettings(timeout=timeout), model)


async def test_without_a_model_there_is_none() -> None:
    none = Language(LlmSettings())
    assert (none.configured, none.name, none.trouble) == (False, None, "")


async def test_instructions_and_data_are_separate_messages() -> None:
    model = Model("yes")
    assert await language(model).ask("Do it.", "The text.") == "yes"
    assert model.asked == [
        [{"role": "system", "content": "Do it."}, {"role": "user", "content": "The text."}]
    ]


async def test_one_call_at_a_time() -> None:
    model = Model("yes")
    model.released = anyio.Event()
    asking = language(model)
    answers: list[str] = []

    async def ask(number: int) -> None:
        answers.append(await asking.ask("", str(number)))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
            assert len(model.asked) == 1
            model.released.set()
    assert (len(answers), model.most) == (5, 1)


async def test_a_call_that_hangs_ends_at_its_timeout_and_those_behind_it_with_it() -> None:
    model = Model("yes")
    model.released = anyio.Event()
    asking = language(model, timeout=0.2)
    errors: list[str] = []

    async def ask() -> None:
        with pytest.raises(ModelUnavailable) as raised:
            await asking.ask("", "")
        errors.append(raised.value.message)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(ask)
    assert len(errors) == 4
    assert "in time" in asking.trouble
    assert len(model.asked) <= 2  # a waiting call may have given up before
    model.released.set()
    assert await asking.ask("", "") == "yes"
    assert asking.trouble == ""


@pytest.mark.parametrize(
    "error", [ModelUnavailable("Down."), TextRefused("Too long."), ValueError("private"), OSError()]
)
async def test_after_a_failure_it_says_why_and_the_next_call_tries_again(error: Exception) -> None:
    asking = language(Model(error, "yes"))
    with capture_logs() as logs, pytest.raises(EmbedError) as raised:
        await asking.ask("", "private")
    assert asking.trouble == f"{raised.value.message} {raised.value.hint}".strip() != ""
    assert "private" not in asking.trouble + str(logs)
    assert await asking.ask("", "") == "yes"
    assert asking.trouble == ""


async def test_a_function_of_the_program_is_used_first() -> None:
    asked: list[str] = []

    async def prompt(text: str) -> str:
        asked.append(text)
        return "from the program"

    asking = Language(LlmSettings(), Model("from the server"), prompt)
    assert asking.name == PROGRAM
    assert await asking.ask("Do it.", "The text.") == "from the program"
    assert asked == ["Do it.\n\nThe text."]


async def test_a_function_that_returns_something_else_or_hangs_is_an_error() -> None:
    async def wrong(text: str) -> str:
        return None  # type: ignore[return-value]

    async def hangs(text: str) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    for prompt in (wrong, hangs):
        asking = Language(LlmSettings(timeout=0.05), None, prompt)
        with pytest.raises(ModelUnavailable), anyio.fail_after(LIMIT):
            await asking.ask("", "")
        assert asking.trouble


async def test_a_cancelled_call_frees_its_turn() -> None:
    model = Model("yes")
    model.released = anyio.Event()
    asking = language(model)
    with anyio.move_on_after(0.05):
        await asking.ask("", "")
    model.released.set()
    with anyio.fail_after(LIMIT):
        assert await asking.ask("", "") == "yes"
    assert asking.trouble == ""  # whoever cancels does not judge the model
