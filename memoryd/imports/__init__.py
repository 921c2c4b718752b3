"""Readers of what other programs keep: one module for each format, each a function from a path to
rows in one shape (`rows`). Standard library only; nothing here knows the daemon."""

# The names for `--format`; `recognise` has the readers.
PRODUCTS = (
    *("server-memory", "claude-code", "claude-memory", "claude", "chatgpt", "mem0"),
    *("mcp-memory-service", "mempalace", "claude-mem", "basic-memory"),
)
