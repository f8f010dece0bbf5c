"""Sections 1, 2 and 4: whether larger, longer trained and flatter models of one pre-training loss are better.

How models are trained and measured, and the amounts of each preset, stand in `experiment.py`, and what a
reader can change in `parameters.py`; which models a chapter trains stands in its cells. What follows from the
one table of measurements is in `claims.py`. The subjects of Appendices A and B are `languages.py` and
`estimators.py`. The pages 01, 02b, 04, a1 to a4, b1, b2, d and e read this study, whose comparisons
`chapters/protocol.md` fixes.
"""
