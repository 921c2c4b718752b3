"""Memories as files for people: MEMORY.md, which may be edited, and HISTORY.md."""
