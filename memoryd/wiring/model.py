"""Loads the embedding model in parallel with the store, and attaches it to the engine.

Whatever fails with a model, the daemon keeps serving: by words, and every answer says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from memoryd.engine.engine import Engine
from memoryd.engine.models.outage import FIRST, backoff
from memoryd.errors import EmbedError, MemorydError
from memoryd.logs import stage
from memoryd.ports import Encoder, Identity
from memoryd.settings import Config
from memoryd.wiring.local_store import known_identity

log = structlog.get_logger()
RETRY = 60.0  # seconds between two attempts to load a missing model
BRIEF_WAIT = 2.0  # seconds that an opening waits for a model that is still being loaded
REASON = 200  # characters of a foreign error's text
INSTALL_AGAIN = "A library that memoryd needs does not load: install memoryd again."

Made = TypeVar("Made")
Load = Callable[..., Encoder | None]


def guarded(prepare: Callable[[], Made], what: str = "The embedding model") -> Made:
    """What `prepare` returns. Raises MemorydError in place of any other exception.

    For code on threads, which cancellation does not reach. It catches even BaseException: a panic
    in a native library is one, and so is the SystemExit of a library that gives up.
    """
    try:
        return prepare()
    except (MemorydError, KeyboardInterrupt):
        raise
    except BaseException as exc:
        said = " ".join(str(exc).split())[:REASON]
        reason = f"{type(exc).__name__}: {said}" if said else type(exc).__name__
        raise EmbedError(
            f"{what} cannot be prepared ({reason}).",
            code="model_unusable",
            hint=INSTALL_AGAIN if isinstance(exc, ImportError) else "Run: memoryd setup",
        ) from exc


def reason_of(exc: MemorydError) -> str:
    """The type of the error behind this one, for the log, which must not have its text."""
    return type(exc.__cause__ or exc).__name__


class Model:
    """The configured model, while it is being loaded and afterwards.

    A store must know the model of its vectors before the first one is computed. For a model of the
    catalogue this is known without its files, so the daemon serves while they are fetched.
    """

    def __init__(self, config: Config, load: Load) -> None:
        self.name = config.memory.embedding_model
        self._config = config
        self._load = load
        self._encoder: Encoder | None = None
        self._trouble: MemorydError = EmbedError("The embedding model is being loaded.")
        self._tried = anyio.Event()
        self._ready = anyio.Event()

    async def load(self) -> None:
        """Try once with downloads, then repeatedly without: the user may run `memoryd setup`."""
        load = partial(self._load, self._config)
        # A server may be back in a moment; files come when the user fetches them.
        pauses = backoff(FIRST if self._config.embedding.backend == "http" else RETRY, RETRY)
        while self._encoder is None:
            try:
                with stage("model") as facts:
                    encoder = await anyio.to_thread.run_sync(guarded, load, abandon_on_cancel=True)
                    facts["model"] = encoder.model if encoder else None
                self._encoder = encoder
                self._ready.set()
            except MemorydError as exc:
                log.warning("model_missing", code=exc.code, error=reason_of(exc))
                self._trouble = exc
            self._tried.set()
            await anyio.sleep(0 if self._encoder else next(pauses))
            load = partial(self._load, self._config, download=False)

    async def tried(self) -> None:
        """Wait until the model is loaded or known to be missing."""
        await self._tried.wait()

    async def identity(self) -> Identity:
        """The identity of the vectors that the store will hold. Raises MemorydError if unknown."""
        if (known := known_identity(self._config)) is not None:
            return known
        await self._tried.wait()
        if self._encoder is None:
            raise self._trouble
        return Identity(self._encoder.model, self._encoder.dimension)

    @property
    def trouble(self) -> str:
        """Why it is not loaded, as a sentence for the answers; empty if it is."""
        return "" if self._encoder else f"{self._trouble.message} {self._trouble.hint}".strip()

    async def loaded(self) -> Encoder:
        """The encoder, once it is loaded."""
        await self._ready.wait()
        assert self._encoder is not None
        return self._encoder

    async def serve(
        self, engine: Engine, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Attach the model to the engine, within a moment or when it is loaded. Until then the
        engine says what is missing."""
        engine.without_model(lambda: self.trouble)
        # Often it is loaded a moment after the store is open: the first answers should have it.
        with anyio.move_on_after(BRIEF_WAIT):
            await self._tried.wait()
        if not self._ready.is_set():
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
        encoder = await self.loaded()
        engine.attach(encoder)
        task_status.started()
        await embed_pending(engine)


async def embed_pending(engine: Engine) -> None:
    """Embed what was stored without a model."""
    try:
        await engine.embed_all_pending()
    except MemorydError as exc:  # upkeep tries again
        log.warning("embed_pending_failed", code=exc.code)
