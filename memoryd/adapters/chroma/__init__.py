"""The store: ChromaDB in a worker process."""
