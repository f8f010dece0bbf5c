"""Sections 2 and 4 by a protocol: models of one pre-training loss, compared by size, steps and flatness.

The experiment says what is trained on which language and what is measured of every model, as one tidy table;
the answers follow from that table alone, as differences between two of its cells with intervals over
replicates; tables and figures show both. What is compared, and what would count for the paper or against it,
stands in `chapters/protocol.md`, which was committed before the runs. The page `comparison` reads it.
"""
