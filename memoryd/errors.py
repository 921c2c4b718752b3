"""Every error memoryd raises on purpose. Each has a stable code, a sentence and a hint.

MemorydError
├── InvalidInput       the request was refused; nothing was changed
│   └── FileDamaged        a file is not a complete export or backup
├── NotFound           no memory has this id or name
├── NeedsFullIndex     a daemon with `search.index: remote` cannot do this
├── ConfigError        a setting that is unknown, of the wrong type or out of range
├── UnsafeFiles        other users can reach the memories or the socket
├── StoreError         the store refused an operation, or it failed
│   ├── StoreBusy          another process has the data directory
│   ├── StoreMismatch      the store was made for another model or schema
│   ├── StoreConflict      another daemon on the same server changed the memory first
│   └── StoreUnavailable   the store cannot be reached, or its worker keeps crashing
│       └── StoreOffline       the Chroma server cannot be reached
│           └── StoreUnauthorized  it, or the proxy before it, refuses the access
├── DaemonUnavailable  no daemon answers; the call was not made
│   ├── DaemonNotStarted   a daemon could not be started
│   └── DaemonUnreachable  a process has the data directory but does not answer
├── WrongDaemon        the daemon that answers serves another data directory
├── MirrorError        the files of the mirror cannot be read or written
├── OutOfMemory        there is not enough RAM
└── EmbedError         the embedding model is missing or failed
    ├── ModelMissing       no source has the model
    ├── ModelCorrupt       a model file has the wrong hash or shape
    ├── ModelUnavailable   the server of the model is down, slow or answers wrongly
    ├── TextRefused        the server of the model refuses this text, not others
    └── BadVector          a vector is not finite, zero or of the wrong dimension
"""

from __future__ import annotations


class MemorydError(Exception):
    """Base of the tree. `code` never changes once released; the message may."""

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
    """The request was refused before anything was changed; `code` says by which check."""

    code = "invalid_input"


class FileDamaged(InvalidInput):
    """The file is not a complete export or backup that this version can read."""

    code = "file_damaged"
    hint = "Use another copy of the file. Nothing was changed."


class NotFound(MemorydError):
    """No memory has this id or name, or it has expired."""

    code = "not_found"
    hint = "Search for it, or check the id."


class NeedsFullIndex(MemorydError):
    """This needs all memories in RAM, and a daemon with `search.index: remote` has none of them."""

    code = "needs_full_index"
    hint = "Use a daemon with search.index: memory on the same Chroma server; see docs/cluster.md."


class OutOfMemory(MemorydError):
    """The system is out of memory; nothing was changed."""

    code = "out_of_memory"
    hint = "Free some RAM, or send less at a time, then try again."

    def __init__(self, message: str = "There is not enough RAM for this now.") -> None:
        super().__init__(message)


class DaemonUnavailable(MemorydError):
    """No daemon answers; the call was not made."""

    code = "daemon_unavailable"
    hint = "Run: memoryd start"


class DaemonNotStarted(DaemonUnavailable):
    """A daemon could not be started for this call, or ended before it listened."""

    hint = ""


class DaemonUnreachable(DaemonUnavailable):
    """A process holds the data directory but does not answer, so no daemon can be started."""

    code = "daemon_unreachable"
    hint = ""


class WrongDaemon(MemorydError):
    """The daemon at the socket serves another data directory than the one that was named."""

    code = "daemon_of_other_data"
    hint = "Name the right daemon by --socket or --data-dir."


class ConfigError(MemorydError):
    """The configuration cannot be used; the message names the key and where it was set."""

    code = "config_invalid"


class UnsafeFiles(MemorydError):
    """Other users can reach a file or directory, or it is not what it should be; `code` says."""

    code = "files_unsafe"


class StoreError(MemorydError):
    """The store refused an operation or it failed; nothing of it was kept."""

    code = "store_failed"
    hint = "Try again; if it fails again, look at the log."


class StoreBusy(StoreError):
    """Another process holds the data directory."""

    code = "store_busy"
    hint = "Use the daemon that runs, or choose another data directory with --data-dir."


class StoreMismatch(StoreError):
    """The store was written for another model, dimension or schema."""

    code = "store_mismatch"


class StoreUnavailable(StoreError):
    """The store cannot be reached, or its worker crashed again on the retry."""

    code = "store_unavailable"


class StoreOffline(StoreUnavailable):
    """The Chroma server cannot be reached; what is in RAM can still be read."""

    code = "store_offline"
    hint = "Check that the server runs and that store.host and store.port are right."


class StoreUnauthorized(StoreOffline):
    """The Chroma server, or the proxy before it, refuses the access."""

    code = "store_unauthorized"
    hint = "Check the token in store.headers, and store.tenant and store.database."


class StoreConflict(StoreError):
    """Another daemon on the same Chroma server changed the memory first. Nothing was changed."""

    code = "store_conflict"
    hint = "Try again."


class MirrorError(MemorydError):
    """The files of the mirror cannot be read or written; `code` says why."""

    code = "mirror_unwritable"
    hint = "Check that the folder of mirror.path is yours, writable and not full."


class EmbedError(MemorydError):
    """The embedding model is missing or failed. `tried`: each place where a model was looked for,
    with the reason why it is not used."""

    code = "embed_failed"
    tried: tuple[str, ...] = ()


class ModelMissing(EmbedError):
    """No source of weights has the model."""

    code = "model_missing"
    hint = "Run: memoryd setup"


class ModelCorrupt(EmbedError):
    """A model file has the wrong hash or shape."""

    code = "model_corrupt"
    hint = "Remove the damaged file and try again."


class ModelUnavailable(EmbedError):
    """The server of the model is down, slow or answers wrongly; it may be back later."""

    code = "model_unavailable"


class TextRefused(EmbedError):
    """The server of the model refuses this text; others may be accepted."""

    code = "text_refused"


class BadVector(EmbedError):
    """A vector with non-finite numbers, zero length or the wrong dimension."""

    code = "bad_vector"
