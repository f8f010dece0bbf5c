"""The proofs of Appendix B: both sides of each lemma, computed exactly.

From which k it holds, and states (k, c, v, b) where it is false as printed. Here are Gaussian facts, small
balls, the statements with their checks, and the tables and figures of page II.3b. Nothing in here trains.
"""
