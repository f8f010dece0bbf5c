"""What the tests of this study share."""

import pytest
from made_up import made_up, table

from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.results import Results


@pytest.fixture
def results(tmp_path):
    setting = resolve({"preset": "smoke", "artifacts": str(tmp_path)})
    return Results(setting, *made_up(setting), checkpoints=table(setting))
