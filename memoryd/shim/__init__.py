"""`memoryd mcp`: the stdio shim. Standard library only."""
