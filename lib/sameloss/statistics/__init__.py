"""Numbers with their error: estimates, intervals, and associations that count runs.

What belongs here takes numbers, or a table of checkpoints by size and seed, and returns numbers with an
interval or a standard error: means of samples, bootstrap intervals, correlations and slopes,
interpolation to one KL. It knows no language, no model and no run, and not where a number came from.
"""
