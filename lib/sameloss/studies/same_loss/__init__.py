"""At one pre-training loss, are larger, longer trained and flatter models better (Sections 1, 2, 4; Appendices)?

`experiment.py` says what is trained and measured, `claims.py` what follows from the one table of measurements;
`languages.py`, `models.py`, `estimators.py` and `enlargement.py` have the subjects of Appendices A and B. The pages
01, 02, 04, a1 to a4, b1, b2, d and e read it; the page on the protocol fixes its comparisons.
"""
