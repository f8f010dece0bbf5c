"""Faults a user can meet: each says in one sentence what is wrong and what is valid."""


class BookError(Exception):
    """Base of the faults below."""


class LanguageError(BookError, ValueError):
    """A grammar or a sentence that the language cannot accept."""


class CorpusError(BookError, ValueError):
    """A corpus that is empty or cannot be stored."""


class NonFiniteLoss(BookError, FloatingPointError):
    """Training diverged."""


class ParameterError(BookError, ValueError):
    """A parameter that cannot be used."""


class StoreError(BookError, OSError):
    """The artifacts folder cannot be used; what was already computed is untouched."""


class ModelError(BookError, ValueError):
    """A model, or sentences for it, that a measurement cannot accept."""


class UnreachableKL(BookError, ValueError):
    """A KL to compare runs at that their checkpoints do not bracket."""


class ManifoldError(BookError, ValueError):
    """A point that is no minimiser of the loss, or minimisers that form no manifold there."""


class NotConverged(BookError, ArithmeticError):
    """A numerical search that did not reach what was asked of it."""
