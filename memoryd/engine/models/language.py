"""The optional language model: one call at a time, each for a bounded time.

A local model answers one prompt after the other anyway, and a service counts its requests. So calls
wait for their turn. If a call fails, those that waited for it fail with it: they would only wait
for the same failure, one timeout after the other. The next call tries the model again, so a server
that is back is used without a restart.
"""

from __future__ import annotations

import anyio
import structlog

from memoryd.errors import EmbedError, ModelUnavailable
from memoryd.ports import LanguageModel, PromptFn
from memoryd.settings import LlmSettings

log = structlog.get_logger()
PROGRAM = "a function of the program"  # the name of a model that is given as a PromptFn


class Language:
    """The language model of the settings, or of the program that embeds memoryd, or none.
    `trouble`: why the last call failed; "" after one that succeeded."""

    def __init__(
        self,
        settings: LlmSettings,
        model: LanguageModel | None = None,
        prompt: PromptFn | None = None,
    ) -> None:
        self._seconds = settings.timeout
        self._model = model
        self._prompt = prompt
        self._turn = anyio.Lock()
        self._failures = 0
        self.trouble = ""

    @property
    def name(self) -> str | None:
        """The model, for `status`; None without one. A function of the program is used first."""
        if self._prompt is not None:
            return PROGRAM
        return self._model.name if self._model is not None else None

    @property
    def configured(self) -> bool:
        return self.name is not None

    async def ask(self, instructions: str, data: str) -> str:
        """What the model answers. Waits at most `llm.timeout` for its turn, and as long for the
        answer. Raises EmbedError."""
        failures = self._failures
        try:
            with anyio.fail_after(self._seconds):
                await self._turn.acquire()
        except TimeoutError:
            raise ModelUnavailable("The language model is busy with other sessions.") from None
        try:
            if self._failures != failures:
                raise ModelUnavailable(self.trouble)
            return await self._answer(instructions, data)
        finally:
            self._turn.release()

    async def _answer(self, instructions: str, data: str) -> str:
        try:
            with anyio.fail_after(self._seconds):
                answer = await self._complete(instructions, data)
        except Exception as exc:
            error = self._error(exc)
            self._failures += 1
            self.trouble = f"{error.message} {error.hint}".strip()
            log.warning("llm_failed", code=error.code, error=error.message)
            raise error from exc
        if self.trouble:
            log.info("llm_returned")
        self.trouble = ""
        return answer

    async def _complete(self, instructions: str, data: str) -> str:
        if self._prompt is not None:
            answer = await self._prompt(f"{instructions}\n\n{data}")
        else:
            assert self._model is not None
            roles = {"system": instructions, "user": data}
            answer = await self._model.complete(
                [{"role": role, "content": text} for role, text in roles.items()]
            )
        if not isinstance(answer, str):
            raise ModelUnavailable(f"The language model answered with {type(answer).__name__}.")
        return answer

    def _error(self, exc: Exception) -> EmbedError:
        if isinstance(exc, EmbedError):
            return exc
        if isinstance(exc, TimeoutError):
            return ModelUnavailable("The language model did not answer in time.")
        # Only the type: what it says may quote a message.
        return ModelUnavailable(f"The language model failed with {type(exc).__name__}.")
