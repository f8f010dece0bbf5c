"""Flatness of the loss around a model.

Here stand the Fisher trace and the gradient norms it is made of, the Hessian with its stochastic traces,
its diagonal, sharpness and the learning coefficient (Section 4; Appendices B and D). A new estimator is
tested against the dense Hessian of a tiny model. None of them knows of checkpoints or runs.
"""
