"""The parameters cells of chapters, written from the tables of their studies."""

import re
from pathlib import Path

from sameloss.book.studies import all_studies
from sameloss.studies.parameters import cell

HEAD = '# %% tags=["parameters"]\n'


def with_parameters(source: str, written: str) -> str:
    """Return the py:percent source of a chapter with another parameters cell."""
    return re.sub(
        re.escape(HEAD) + r".*?(?=\n\n# %%)", lambda _: HEAD + written, source, count=1, flags=re.DOTALL
    )


def stale_cells(folder: Path) -> dict[Path, str]:
    """Return the chapters whose parameters cell is not what their study says, each with its right source."""
    found = {}
    for study in all_studies().values():
        for name in study.plans:
            path = folder / f"{name}.py"
            if not path.exists():
                continue
            source = path.read_text()
            right = with_parameters(source, cell(study.table(name)))
            if right != source:
                found[path] = right
    return found
