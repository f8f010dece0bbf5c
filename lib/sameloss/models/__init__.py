"""Masked language models and the registry of their sizes."""
