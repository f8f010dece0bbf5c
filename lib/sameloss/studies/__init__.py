"""Studies, one folder per paper or self-contained part of one, and the modules that they share.

A study has `theory`, `experiment` (its stored runs), and `claims` or `statements`; presets, sweeps, tables
and figures stand in its chapters. Studies do not import each other.
"""
