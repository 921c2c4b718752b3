"""Embedding models: found, prepared and run."""
