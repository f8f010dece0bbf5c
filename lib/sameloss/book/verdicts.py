"""The verdicts on every lemma and theorem, from the runs of both theoretical chapters."""

import pandas as pd

from sameloss.store.pool import get_all
from sameloss.store.store import Run
from sameloss.studies.dyck.statements import STATEMENTS as SECTION_5
from sameloss.studies.manifold_flow.statements import STATEMENTS as SECTION_3
from sameloss.studies.manifold_flow.statements import checks
from sameloss.studies.manifold_flow.tables import Tables
from sameloss.studies.same_loss.groups import Setting
from sameloss.studies.statement import statement_table


def theory_runs(setting: Setting) -> list[Run]:
    """Return the runs that the statements are checked on."""
    return [*setting.implicit_bias(), *setting.dyck().runs()]


def theory_table(setting: Setting) -> pd.DataFrame:
    """Return one row a statement of Sections 3 and 5 and Appendices C and F, with its verdict."""
    along = setting.implicit_bias()
    get_all(setting.store, theory_runs(setting), setting.preset.workers)
    sgd, adam, zeros, _ = map(setting.store.get, along)
    found = {
        "3": statement_table(SECTION_3, checks(Tables(along[0], sgd, adam, zeros))),
        "5": statement_table(SECTION_5, setting.store.get(setting.dyck().checks)),
    }
    return pd.concat([table.assign(section=section) for section, table in found.items()], ignore_index=True)
