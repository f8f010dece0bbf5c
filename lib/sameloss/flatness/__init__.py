"""Measures of flatness of the pre-training loss."""
