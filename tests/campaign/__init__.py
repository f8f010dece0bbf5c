"""Randomised fault injection: kills, damage, full disks, concurrent processes and signals.

`make campaign` runs it; `tests/test_campaign.py` runs a sample. Every trial has its own seed, by which a
failure is reported and reproduced.
"""
