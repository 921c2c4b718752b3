"""Formats of memories for people: JSON, Markdown, and the block of a CLAUDE.md. Standard library
only. `export_file` has the format of exports and backups by default."""

FORMATS = ("jsonl", "json", "md", "claude-md")
TEXT = "text"  # Markdown that a person wrote; it can only be imported
IMPORT_FORMATS = (*FORMATS, TEXT)
