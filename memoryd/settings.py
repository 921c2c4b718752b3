"""Every setting with its type, default and range: one frozen value, handed out in parts."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from memoryd.fields import TRUST
from memoryd.lead import DEFAULT as LEAD_FIELDS
from memoryd.phases import FACTORS, SHARES, TOKENS
from memoryd.places import data_dir
from memoryd.toolsets import DEFAULT


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What is remembered, where, and for how long."""

    path: Path = field(default_factory=data_dir)
    embedding_model: str = "all-MiniLM-L6-v2"
    context_window_size: int = field(default=5, metadata={"least": 1})
    max_sessions: int = field(default=1000, metadata={"least": 1})
    cleanup_interval: float = field(default=3600.0, metadata={"least": 0.1})
    cleanup_batch: int = field(default=500, metadata={"least": 1, "most": 5000})
    conversation_days: float = field(default=30.0, metadata={"above": 0.0, "most": 36_500.0})
    clock_gap_days: float = field(default=3.0, metadata={"above": 0.0})
    clock_steady_hours: float = field(default=6.0, metadata={"least": 0.0})
    timezone: str = ""
    max_content_bytes: int = field(default=102_400, metadata={"least": 1})
    secrets: Literal["mask", "refuse", "allow"] = "mask"


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """How text becomes vectors."""

    backend: Literal["onnx", "sentence-transformers", "http", "hash", "none"] = "onnx"
    models_dir: str = ""
    download: bool = True
    threads: int = field(default=0, metadata={"least": 0})
    batch_size: int = field(default=32, metadata={"least": 1})
    cache_size: int = field(default=2048, metadata={"least": 0})
    url: str = ""
    api: Literal["ollama", "openai"] = "ollama"
    key_env: str = ""
    key_file: str = ""
    dimensions: int = field(default=0, metadata={"least": 0, "most": 65_536})
    timeout: float = field(default=10.0, metadata={"above": 0.0, "most": 600.0})
    retries: int = field(default=2, metadata={"least": 0, "most": 10})
    passage_bytes: int = field(default=1000, metadata={"least": 100})
    query_prefix: str = ""
    document_prefix: str = ""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where ChromaDB is and how it writes."""

    mode: Literal["embedded", "http"] = "embedded"
    collection: str = "memories"
    sync_threshold: int = field(default=200, metadata={"least": 3, "most": 10_000})
    lock_wait: float = field(default=30.0, metadata={"least": 0.0})
    compact_rows: int = field(default=1000, metadata={"least": 0})
    compact_hours: float = field(default=24.0, metadata={"above": 0.0})
    host: str = "127.0.0.1"
    port: int = field(default=8000, metadata={"least": 1, "most": 65_535})
    ssl: bool = False
    ca_file: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    tenant: str = "default_tenant"
    database: str = "default_database"
    poll_seconds: float = field(default=1.0, metadata={"least": 0.1, "most": 10.0})
    owner: str = ""
    audience: Literal["private", "project", "team"] = "team"
    projects: tuple[str, ...] = ()
    offline: Literal["refuse", "queue"] = "refuse"
    offline_limit: int = field(default=1000, metadata={"least": 1, "most": 100_000})
    offline_bytes: int = field(default=20_000_000, metadata={"least": 10_000})


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """When backups are made, where, and how many are kept."""

    every_hours: float = field(default=24.0, metadata={"least": 0.0})
    keep: int = field(default=7, metadata={"least": 1})
    dir: str = ""

    def folder(self, data_dir: Path) -> Path:
        """Where the backups of this data directory are."""
        return Path(self.dir).expanduser() if self.dir else data_dir / "backups"


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Defaults and weights of a search."""

    limit: int = field(default=5, metadata={"least": 1, "most": 1000})
    min_score: float = field(default=0.3, metadata={"least": 0.0, "most": 1.0})
    index: Literal["memory", "remote"] = "memory"
    exact_limit: int = field(default=250_000, metadata={"least": 0})
    words_weight: float = field(default=2.0, metadata={"least": 0.0, "most": 10.0})
    neighbour_weight: float = field(default=0.35, metadata={"least": 0.0, "most": 1.0})
    answer_weight: float = field(default=0.4, metadata={"least": 0.0, "most": 1.0})
    session_weight: float = field(default=0.2, metadata={"least": 0.0, "most": 1.0})
    length_weight: float = field(default=0.12, metadata={"least": 0.0, "most": 1.0})
    speaker_weight: float = field(default=0.1, metadata={"least": 0.0, "most": 1.0})
    time_weight: float = field(default=0.2, metadata={"least": 0.0, "most": 1.0})
    quiet_weight: float = field(default=0.2, metadata={"least": 0.0, "most": 1.0})
    nudge_weight: float = field(default=0.02, metadata={"least": 0.0, "most": 0.1})
    project_weight: float = field(default=0.02, metadata={"least": 0.0, "most": 0.2})
    lead_fields: tuple[str, ...] = LEAD_FIELDS
    rerank_model: str = ""
    rerank_url: str = ""
    rerank_key_env: str = ""
    rerank_key_file: str = ""
    rerank_timeout: float = field(default=3.0, metadata={"above": 0.0, "most": 600.0})
    rerank_top: int = field(default=20, metadata={"least": 1, "most": 200})
    rerank_weight: float = field(default=0.6, metadata={"least": 0.0, "most": 1.0})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a recall shows, and when a session is compacted."""

    recall_tokens: int = field(default=4000, metadata={"least": 1})
    recall_messages: int = field(default=40, metadata={"least": 1, "most": 1000})
    recall_moments: int = field(default=5, metadata={"least": 0, "most": 100})
    moment_before: int = field(default=2, metadata={"least": 0, "most": 20})
    moment_after: int = field(default=1, metadata={"least": 0, "most": 20})
    max_memory_size: int = field(default=8192, metadata={"least": 0, "most": 1_000_000})
    auto_compact: bool = True
    memory_window: int = field(default=50, metadata={"least": 2, "most": 10_000})
    keep_count: int = field(default=10, metadata={"least": 0, "most": 1000})


@dataclass(frozen=True, slots=True)
class PhaseSettings:
    """What a recall shows in each phase of work, and the size of a brief."""

    tokens: dict[str, int] = field(default_factory=TOKENS.copy, metadata={"least": 1})
    factors: dict[str, dict[str, float]] = field(
        default_factory=lambda: deepcopy(FACTORS), metadata={"least": 0.0, "most": 2.0}
    )
    shares: dict[str, dict[str, float]] = field(
        default_factory=lambda: deepcopy(SHARES), metadata={"least": 0.0, "most": 100.0}
    )
    brief_tokens: int = field(default=2500, metadata={"least": 1})


@dataclass(frozen=True, slots=True)
class HookSettings:
    """What the hooks of agents' clients inject and take in."""

    enabled: bool = True
    off_projects: tuple[str, ...] = ()
    session_tokens: int = field(default=1500, metadata={"least": 0, "most": 2500})
    prompt_tokens: int = field(default=400, metadata={"least": 0, "most": 2500})
    prompt_min_score: float = field(default=0.7, metadata={"least": 0.0, "most": 1.0})
    tool_notes: int = field(default=4, metadata={"least": 0, "most": 100})
    tool_min_confidence: float = field(default=0.65, metadata={"least": 0.0, "most": 1.0})
    transcripts: bool = True


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """The language model that writes summaries of sessions."""

    url: str = ""
    model: str = ""
    key_env: str = ""
    key_file: str = ""
    timeout: float = field(default=30.0, metadata={"above": 0.0, "most": 600.0})


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """How memories gain and lose trust."""

    trust: dict[str, float] = field(
        default_factory=TRUST.copy, metadata={"least": 0.0, "most": 2.0}
    )
    deprecated_below: float = field(default=0.1, metadata={"least": 0.0, "most": 1.0})
    deprecated_days: float = field(default=30.0, metadata={"least": 0.0, "most": 36_500.0})
    check_files: bool = True
    stale_days: float = field(default=30.0, metadata={"least": 0.0, "most": 36_500.0})
    project_folders: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """Memories as files for people."""

    path: str = ""
    block_tokens: int = field(default=1500, metadata={"least": 200, "most": 20_000})


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """Ways in besides the Unix socket, and what one connection may use."""

    tcp_host: str = "127.0.0.1"
    tcp_port: int = field(default=0, metadata={"least": 0, "most": 65_535})
    http_host: str = "127.0.0.1"
    http_port: int = field(default=0, metadata={"least": 0, "most": 65_535})
    http_allowed_hosts: tuple[str, ...] = ()
    token_file: str = ""
    read_token_file: str = ""
    max_forgets_per_minute: int = field(default=60, metadata={"least": 0})
    http_idle: int = field(default=60, metadata={"least": 1})
    http_session_idle: int = field(default=1800, metadata={"least": 1})
    http_max_sessions: int = field(default=200, metadata={"least": 1})
    max_connections: int = field(default=1000, metadata={"least": 1})
    max_unauthenticated: int = field(default=64, metadata={"least": 1})
    max_calls: int = field(default=64, metadata={"least": 1})
    max_calls_per_second: int = field(default=2000, metadata={"least": 0})
    max_line_bytes: int = field(default=4_194_304, metadata={"least": 1024})
    toolsets: tuple[str, ...] = DEFAULT

    def token_files(self, data_dir: Path) -> tuple[Path, Path]:
        """The files of the token that may write, and of the one that may only read."""
        named = ((self.token_file, "token"), (self.read_token_file, "token.read"))
        full, read = (Path(path).expanduser() if path else data_dir / name for path, name in named)
        return full, read


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how much of it is kept."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    max_bytes: int = field(default=5_000_000, metadata={"least": 1000})
    keep: int = field(default=3, metadata={"least": 1, "most": 100})


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting. `Config()` is what runs when nothing is configured."""

    memory: MemorySettings = field(default_factory=MemorySettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    phases: PhaseSettings = field(default_factory=PhaseSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    mirror: MirrorSettings = field(default_factory=MirrorSettings)
    doors: DoorSettings = field(default_factory=DoorSettings)
    log: LogSettings = field(default_factory=LogSettings)


SECTIONS: dict[str, type[Any]] = {
    "memory": MemorySettings,
    "embedding": EmbeddingSettings,
    "store": StoreSettings,
    "backup": BackupSettings,
    "search": SearchSettings,
    "sessions": SessionSettings,
    "phases": PhaseSettings,
    "hooks": HookSettings,
    "llm": LlmSettings,
    "lifecycle": LifecycleSettings,
    "mirror": MirrorSettings,
    "doors": DoorSettings,
    "log": LogSettings,
}
TYPES = {name: get_type_hints(section) for name, section in SECTIONS.items()}


def keys() -> list[str]:
    """Every setting as `section.key`, in the order of the default file."""
    return [f"{name}.{item.name}" for name, section in SECTIONS.items() for item in fields(section)]


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return "MEMORYD_" + key.replace(".", "_").upper()
