"""Liu, Xie, Li and Ma (2023) on the implicit bias of SGD: Section 3 and Appendix C.

Does SGD, once it has reached a minimum of the loss, drift along the manifold of minimisers towards flat
ones as Theorem 3.3 says, how fast, and what does Adam do? In models small enough for an exact loss,
replicas are compared with the flow, and every statement is judged by checks. Page 03 reads it.
"""
