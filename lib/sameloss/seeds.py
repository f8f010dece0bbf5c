"""Independent random streams: one seed per use."""

import hashlib

import torch


def stream_seed(use: str, *path: int) -> int:
    """Derive a 63-bit seed from the name of its use and a path of integers.

    >>> stream_seed("corpus", 0, 1) != stream_seed("probe", 0, 1) != stream_seed("probe", 1, 0)
    True
    """
    digest = hashlib.sha256(repr((use, *path)).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def generator_for(use: str, *path: int) -> torch.Generator:
    """CPU generator seeded by `stream_seed`."""
    return torch.Generator().manual_seed(stream_seed(use, *path))
