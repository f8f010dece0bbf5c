"""Liu, Xie, Li and Ma (2023) on real trainings: Sections 1, 2 and 4, Appendices A, B, D and E.

The question: among masked language models of the same pre-training loss, which does better downstream,
and does flatness tell? Models of several sizes, trained by several algorithms on languages whose best
possible loss is known, are compared at equal KL by the trace of their Hessian and by their accuracy
downstream. Pages 01, 02, 04, a1, a2, a3, a4, b1, b2, d and e read it.
"""
