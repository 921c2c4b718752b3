"""Secrets are taken out of what is stored."""
