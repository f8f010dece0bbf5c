"""The runs that compare ways to measure flatness on one checkpoint."""

import torch

from sameloss.studies.same_loss.estimators import EstimatorComparison, everything_masked
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.settings import TINY_LANGUAGE


def test_everything_that_can_be_masked():
    language = TINY_LANGUAGE.build()
    masked, truth = everything_masked(language)
    assert len(masked.masked) == 4 * 27
    assert (
        len({(*row, p) for row, p in zip(masked.masked.tolist(), masked.positions.tolist(), strict=True)})
        == 108
    )
    assert (masked.masked.gather(1, masked.positions[:, None]) == 0).all()
    torch.testing.assert_close(truth.sum(1), torch.ones(108, dtype=torch.float64))
    words = torch.arange(1, 4)
    filled = masked.masked[5].repeat(3, 1)
    filled[:, masked.positions[5]] = words
    joint = language.log_prob(type(language.sample(1, torch.Generator()))(filled, torch.full((3,), 4))).exp()
    torch.testing.assert_close(truth[5], joint / joint.sum())


def test_an_estimate_repeats_itself(tmp_path):
    setting = resolve({"preset": "smoke", "artifacts": str(tmp_path), "seeds": 1})
    again = EstimatorComparison(setting.pretraining("3K", 0), 1024, 0)
    assert again.key == setting.estimator_comparison().key
    table = setting.store.get(again)
    assert table["mean"].notna().all()
