"""Estimates with their error, intervals, and associations over runs.

Functions here take numbers, or a table of checkpoints by size and seed, and return numbers with an interval
or a standard error: means of samples, intervals over seeds, correlations, interpolation to a common KL. They
know no language, model or run, and not where a number came from.
"""
