"""One signal row among rows of noise (Karp 2024, Chapter 3; Karp et al. 2021).

Does a convolutional network learn to see the one row that decides the label, and is its tangent kernel unable
to? Pages II.3a (population, descent, kernel) and II.3b (the proofs). Everything about one filter is exact.
"""
