"""Liu, Xie, Li and Ma (2023) on a language of brackets: Section 5 and Appendix F.

The question: in the one transformer that can be solved on paper, does the flattest solution transfer with
the fewest samples, as Theorem 5.1 says? Solutions are found by search and by training with label noise,
the bounds are evaluated exactly, and every statement is judged in its printed and in its corrected form.
Page 05 reads it.
"""
