"""A language of brackets (Liu, Xie, Li and Ma 2023, Section 5 and Appendix F).

Theorem 5.1 says of a transformer that can be solved on paper that its flattest solution transfers with the
fewest samples. Solutions are found by search and by training with label noise, the bounds are evaluated
exactly, and every statement is judged in its printed and in its corrected form. Page: `05_dyck`.
"""
