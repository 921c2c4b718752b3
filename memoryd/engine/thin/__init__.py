"""A daemon without an index of its own: memories stay on the server (`search.index: remote`)."""
