"""Models in use: the embedding queue and the change from one model to another."""
