"""One signal row among rows of noise (Karp 2024, Chapter 3; Karp et al. 2021).

Does a convolutional network learn to find the one row that decides the label, and does its tangent kernel
fail to? Page II.3a covers training on the population, stochastic descent and the kernel; page II.3b covers
the proofs. Everything about a single filter is computed exactly.
"""
