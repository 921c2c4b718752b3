"""Model weights from the package index that pip or uv is configured for."""
