"""Downstream evaluation: features, linear probes, bootstrap intervals."""
