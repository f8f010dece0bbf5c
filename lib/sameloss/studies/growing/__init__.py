"""Landscape-aware growing (Karp 2024, Chapter 5).

The question: which way of making a trained model deeper ends best, and how early does it show? Shallow models
of a language whose entropy is known are grown by every operator; all candidates of one see the same batches.
Page ii5 reads it.
"""
