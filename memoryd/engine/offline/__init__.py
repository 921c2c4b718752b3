"""Writes while the Chroma server cannot be reached: queued, and sent when it is back."""
