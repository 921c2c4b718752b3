"""The map: all memories in two dimensions, with words that tell what lies where."""
