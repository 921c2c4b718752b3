"""The search index in RAM: vectors, words, filter columns and turns, rebuilt at every start."""
