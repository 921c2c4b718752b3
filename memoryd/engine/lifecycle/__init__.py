"""How memories gain and lose trust: uses, decay, review, and the files that they are about."""
