"""memoryd: the one memory that every agent on a machine shares."""

__version__ = "0.1.0"
