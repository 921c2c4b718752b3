"""Every error memoryd raises on purpose. Each has a stable code, a sentence and a hint.

MemorydError
├── InvalidInput       a request that cannot be served as asked; nothing was changed
├── NotFound           no memory has this id or name
├── ConfigError        a setting that is unknown, of the wrong type or out of range
├── UnsafeFiles        others could reach the memories or the socket
├── StoreError         the store could not do it
│   ├── StoreBusy          another process has this store open
│   ├── StoreMismatch      the store was made for another model or schema
│   └── StoreUnavailable   the store cannot be reached, or its worker keeps dying
├── DaemonUnavailable  nobody answers, or not as a memoryd; the call was not made
│   ├── DaemonNotStarted   it was to be started, and could not be
│   └── DaemonUnreachable  a process has the data directory, but cannot be talked to
├── WrongDaemon        the one that answers serves another data directory
├── OutOfMemory        there is not enough RAM for this now
└── EmbedError         the embedding model could not do it
    ├── ModelMissing       no source has the model
    ├── ModelCorrupt       the files are not what they should be
    └── BadVector          the model returned a vector that cannot be compared
"""

from __future__ import annotations


class MemorydError(Exception):
    """Base of the tree. `code` never changes once released; the sentence may."""

    code = "memoryd_error"
    hint = ""

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if hint is not None:
            self.hint = hint


class InvalidInput(MemorydError):
    """The request is refused before anything is changed; `code` says which check refused it."""

    code = "invalid_input"


class NotFound(MemorydError):
    """No living memory has the id or name that was given."""

    code = "not_found"
    hint = "Search for it, or check the id."


class OutOfMemory(MemorydError):
    """The system has no memory for this; nothing was changed."""

    code = "out_of_memory"
    hint = "Free some memory, or send less at a time, and try again."

    def __init__(self, message: str = "There is not enough memory for this now.") -> None:
        super().__init__(message)


class DaemonUnavailable(MemorydError):
    """No daemon answers; the call was not made."""

    code = "daemon_unavailable"
    hint = "Run: memoryd start"


class DaemonNotStarted(DaemonUnavailable):
    """A daemon was started for this call and ended at once, or could not be started."""

    hint = ""


class DaemonUnreachable(DaemonUnavailable):
    """A process holds the data directory, so none can be started, and it does not answer."""

    code = "daemon_unreachable"
    hint = ""


class WrongDaemon(MemorydError):
    """The daemon at the socket serves another data directory than the one that was named."""

    code = "daemon_of_other_data"
    hint = "Name the --socket or the --data-dir of the right daemon."


class ConfigError(MemorydError):
    """The configuration cannot be used; the message names the key and where it was set."""

    code = "config_invalid"


class UnsafeFiles(MemorydError):
    """A file or directory is not its owner's alone; `code` says in which way."""

    code = "files_unsafe"


class StoreError(MemorydError):
    """The store refused or failed an operation; nothing of that operation was kept."""

    code = "store_failed"
    hint = "Try again; if it stays, look at the log."


class StoreBusy(StoreError):
    """Another process holds the data directory."""

    code = "store_busy"
    hint = "One memoryd serves a data directory: use the one that runs, or name another directory."


class StoreMismatch(StoreError):
    """The store was written for another model, dimension or schema."""

    code = "store_mismatch"


class StoreUnavailable(StoreError):
    """The store cannot be reached, or its worker died again while retrying."""

    code = "store_unavailable"


class EmbedError(MemorydError):
    """The embedding model could not serve. `tried`: where a model was looked for, each with the
    reason why it is not used."""

    code = "embed_failed"
    tried: tuple[str, ...] = ()


class ModelMissing(EmbedError):
    """No source of weights has the model."""

    code = "model_missing"
    hint = "Run: memoryd setup"


class ModelCorrupt(EmbedError):
    """A model file does not have the hash or the shape it should have."""

    code = "model_corrupt"
    hint = "Remove the damaged file and try again."


class BadVector(EmbedError):
    """A vector with non-finite numbers, zero length or the wrong dimension."""

    code = "bad_vector"
