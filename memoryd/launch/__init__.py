"""Find the one daemon of a data directory, or start it. Standard library only."""
