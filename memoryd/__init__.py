"""memoryd: the one memory that every agent on a machine shares."""

import os

# Before numpy is first imported: its linear algebra takes one thread, and we use several of
# ours where it pays. Its own wait for each other by spinning, which costs ten times the time as
# soon as somebody else needs a core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
