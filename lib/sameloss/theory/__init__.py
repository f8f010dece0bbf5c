"""The theory of Sections 3 and 5 and Appendices C and F, on instances small enough to be exact."""
