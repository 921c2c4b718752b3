"""Shell completion: the verbs as data, and a script of them for each shell."""
