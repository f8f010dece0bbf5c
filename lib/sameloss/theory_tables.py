"""The verdicts on every lemma and theorem, from the runs of both theoretical chapters."""

import pandas as pd

from sameloss.implicit_bias_tables import STATEMENTS as SECTION_3
from sameloss.implicit_bias_tables import Tables, checks
from sameloss.parallel import get_all
from sameloss.runs import Run
from sameloss.setting import Setting
from sameloss.statements import statement_table
from sameloss.theory.dyck_checks import STATEMENTS as SECTION_5


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
