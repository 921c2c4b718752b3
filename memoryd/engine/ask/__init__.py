"""Questions answered from memory: in its own sentences, or by a language model that cites it."""
