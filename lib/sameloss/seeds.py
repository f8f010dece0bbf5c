"""Random numbers by use: every use has a seed of its own."""

import hashlib

import torch


def stream_seed(use: str, *path: int) -> int:
    """Derive an independent 63-bit seed for each use and path of integers.

    >>> stream_seed("corpus", 0, 1) != stream_seed("probe", 0, 1) != stream_seed("probe", 1, 0)
    True
    """
    digest = hashlib.sha256(repr((use, *path)).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def generator_for(use: str, *path: int) -> torch.Generator:
    """Begin the random numbers of one use, seeded by `stream_seed`, on the CPU."""
    return torch.Generator().manual_seed(stream_seed(use, *path))
