"""`memoryd mcp`: the stdio shim, of the standard library only."""
