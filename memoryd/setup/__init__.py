"""Adds memoryd to the configuration of MCP clients, and removes it again."""
