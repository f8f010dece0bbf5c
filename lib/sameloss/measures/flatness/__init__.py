"""Flatness of the loss around a model.

The Fisher trace and the per-sentence gradient norms behind it, the Hessian with its stochastic trace
estimators, its diagonal, adaptive sharpness and the local learning coefficient (Section 4; Appendices B and
D). Every estimator is tested against the dense Hessian of a tiny model; none knows of checkpoints or runs.
"""
