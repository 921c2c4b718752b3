"""Benchmarks. Each runs us and the alternative in one run, and prints ratios."""

import memoryd  # noqa: F401  (before numpy, as in the daemon: it bounds its threads)
