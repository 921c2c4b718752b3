"""Formats of memories for people: JSON, Markdown, and the block of a CLAUDE.md. Standard library
only. `export_file` has the format of exports and backups by default."""

FORMATS = ("jsonl", "json", "md", "claude-md")
