"""Sections 2 and 4 by the protocol: models of one pre-training loss, compared by size, steps and flatness."""
