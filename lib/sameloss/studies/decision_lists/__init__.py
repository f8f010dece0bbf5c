"""Decision lists learnt by attention (Karp 2024, Chapter 4).

The question: does gradient descent teach one layer of attention to look at the token that decides a label, as
Theorems 4.3 and 4.4 suggest, and when does it grow which weight? The population loss of the thesis' model is
computed without sampling, its gradient flow is followed beside SGD, and every statement is judged by checks.
Page ii4 reads it.
"""
