"""Faults a user can meet: each says in one sentence what is wrong and what is valid."""


class BookError(Exception):
    """The base of all faults of the book."""


class LanguageError(BookError, ValueError):
    """A grammar or a sentence that the language cannot accept."""


class CorpusError(BookError, ValueError):
    """A corpus that is empty or cannot be stored."""


class NonFiniteLoss(BookError, FloatingPointError):
    """A training that diverged."""


class ParameterError(BookError, ValueError):
    """A parameter that cannot be used."""


class StoreError(BookError, OSError):
    """An artifacts folder that cannot be used; what was already computed is untouched."""


class ModelError(BookError, ValueError):
    """A model, or sentences for it, that a measurement cannot accept."""


class UnreachableKL(BookError, ValueError):
    """A KL at which runs cannot be compared, because their checkpoints do not enclose it."""


class ManifoldError(BookError, ValueError):
    """A point that is no minimiser of the loss, or at which the minimisers form no manifold."""


class NotConverged(BookError, ArithmeticError):
    """A numerical search that did not reach the accuracy asked of it."""
