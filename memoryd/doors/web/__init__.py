"""The HTTP door: MCP at /mcp, behind a token, with limits."""
