"""Sections 1, 2 and 4: whether larger, longer trained and flatter models of one pre-training loss are better.

What is trained and measured stands in `experiment.py`; what follows from its one table of measurements in
`claims.py`. The subjects of Appendices A and B are `languages.py`, `models.py`, `estimators.py` and
`enlargement.py`. The pages 01, 02, 04, a1 to a4, b1, b2, d and e read this study, whose comparisons
`chapters/protocol.md` fixes.
"""
