"""Same Pre-training Loss, Better Downstream (Liu, Xie, Li, Ma 2023), regenerated end to end."""
