"""The proofs of Appendix B: both sides of every lemma, from which k each holds, and states at which one does not."""
