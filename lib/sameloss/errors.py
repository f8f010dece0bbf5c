"""Errors shown to users: each message says in one sentence what is wrong and what is valid."""


class BookError(Exception):
    """Base class of all errors of the book."""


class LanguageError(BookError, ValueError):
    """An invalid grammar or sentence."""


class CorpusError(BookError, ValueError):
    """A corpus that is empty or cannot be stored."""


class NonFiniteLoss(BookError, FloatingPointError):
    """A training run that diverged."""


class ParameterError(BookError, ValueError):
    """An invalid parameter."""


class StoreError(BookError, OSError):
    """An artifacts folder that cannot be used; finished results are untouched."""


class ModelError(BookError, ValueError):
    """A model or sentences that a measurement cannot handle."""


class UnreachableKL(BookError, ValueError):
    """A KL outside the range of some run's checkpoints, at which runs cannot be compared."""


class ManifoldError(BookError, ValueError):
    """A point that does not minimise the loss, or where the minimisers do not form a manifold."""


class NotConverged(BookError, ArithmeticError):
    """A numerical search that did not reach its tolerance."""
