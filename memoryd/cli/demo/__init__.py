"""`memoryd demo`: invented memories, for trying memoryd out and for pictures of it."""
