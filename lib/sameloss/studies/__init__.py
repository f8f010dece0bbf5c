"""Studies, one folder per paper or self-contained part of one, and the modules that they share.

A study has `theory`, `experiment` (configuration, presets, runs), `claims` or `statements`, `show` (tables
and figures) and `pages`; studies do not import each other.
"""
