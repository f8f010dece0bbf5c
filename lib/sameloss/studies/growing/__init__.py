"""Landscape-aware growing (Karp 2024, Chapter 5).

Which way of making a trained model deeper ends best, and how early does it show? Shallow models of a language
of known entropy are grown by every operator, once or in stages; all candidates grown from one model see the
same batches. Pages: `ii5_growing` and `ii5_stacking`.
"""
