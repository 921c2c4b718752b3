"""Puts engine, store and models together. Only this package and the daemon know all layers."""
