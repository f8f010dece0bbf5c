"""A fault campaign: kills, damage, full disks, crowds and signals, all from one seed.

`make campaign` runs it; a sample is among the tests (`tests/test_campaign.py`). Each part draws its trials
from the seed; a trial that finds a fault is named with the seed that finds it again.
"""
