"""Liu, Xie, Li and Ma (2023) on the implicit bias of SGD: Section 3 and Appendix C.

The question: does SGD, once it is at a minimum of the loss, drift along all minima towards flat ones as
Theorem 3.3 says, at which speed, and what does Adam do? Models small enough for an exact loss are
followed beside the flow, replica by replica, and every statement is judged by checks. Page 03 reads it.
"""
