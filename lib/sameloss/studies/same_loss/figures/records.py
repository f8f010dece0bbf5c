"""Figures of a record: those of `models` from recorded tables, a panel a language and task."""

from collections.abc import Iterable, Iterator

from matplotlib.axes import Axes

from sameloss.studies.drawing import panels
from sameloss.studies.same_loss.figures import models
from sameloss.studies.same_loss.pages import RecordPage
from sameloss.studies.same_loss.record import last_of


def against_kl(page: RecordPage, *languages: str) -> list[Axes]:
    """Draw accuracy against KL, every checkpoint of ordinary training."""
    axes = []
    for language, task, ax in _panels(page, languages):
        baselines = page.rows("baselines", language=language, task=task)
        models.accuracy_against_kl(page.trained(language), task, baselines, page.saturated_kl(language), ax)
        axes.append(ax)
    return _explained(axes)


def against_trace(page: RecordPage, *languages: str) -> list[Axes]:
    """Draw accuracy against trace, the last checkpoints of ordinary training."""
    axes = []
    for language, task, ax in _panels(page, languages):
        axes.append(models.accuracy_against_trace(last_of(page.trained(language)), task, ax))
    return _explained(axes)


def along_training(page: RecordPage, algorithm: str) -> list[Axes]:
    """Draw trace, KL and accuracy (of each language's last task) along the training of one algorithm."""
    languages = page.rows("checkpoints", algorithm=algorithm).language.unique()
    axes = iter(drawn := panels(3 * len(languages)))
    for language in languages:
        table = page.rows("checkpoints", algorithm=algorithm, language=language)
        task = page.tasks_on(language)[-1]
        labels = {"trace": models.TRACE_LABEL, "kl_mean": "KL (nats)", task: models.accuracy_label(task)}
        for quantity, label in labels.items():
            ax = models.along_training(table, quantity, label, next(axes), log=quantity != task)
            ax.set_title(language)
    return drawn


def _panels(page: RecordPage, languages: Iterable[str]) -> Iterator[tuple[str, str, Axes]]:
    """Yield every recorded task of some languages with axes named after the language."""
    shown = [(name, task) for name in languages if name in page.languages for task in page.tasks_on(name)]
    for (language, task), ax in zip(shown, panels(len(shown)) if shown else [], strict=True):
        ax.set_title(language)
        yield language, task, ax


def _explained(axes: list[Axes]) -> list[Axes]:
    """Explain colours and markers in the first panel of each language."""
    first = {ax.get_title(): ax for ax in reversed(axes)}
    for ax in first.values():
        ax.legend(fontsize="x-small")
    return axes
