"""Learning rates are looked at in trainings that no comparison has, on the KL alone."""

from dataclasses import replace

from sameloss.store.store import Store
from sameloss.studies.same_loss.groups import ALL_SIZES
from sameloss.studies.same_loss.rate_search import SEED, SHORTER, best_rates, rate_runs, rate_table
from sameloss.studies.same_loss.recorded import rows
from sameloss.studies.same_loss.settings import PRESETS


def group_of(*multiples):
    """Return the smoke preset's sizes, whose rates are tried at some multiples."""
    smoke = PRESETS["smoke"]
    return ALL_SIZES.group(replace(smoke, training=replace(smoke.training, rates_tried=multiples)))


def test_only_some_presets_try_rates():
    assert rate_runs(group_of()) == []
    assert [name for name, settings in PRESETS.items() if settings.training.rates_tried] == ["workstation"]


def test_every_size_is_trained_at_every_rate_for_a_shorter_time_and_with_a_seed_of_its_own():
    group = group_of(0.5, 2.0)
    runs = [measured.pretraining for measured in rate_runs(group)]
    base = group.settings.training.optimisation
    assert [run.optimisation.lr / base.lr for run in runs] == [0.5, 0.5, 2.0, 2.0]
    assert [run.shape for run in runs] == 2 * [group.domain.shapes[size] for size in group.sizes]
    assert {run.seed for run in runs} == {SEED}
    assert {run.checkpoints for run in runs} == {(base.steps // SHORTER,)}
    assert not set(runs) & set(group.pretrainings().values())


def test_the_table_has_the_kl_of_each(tmp_path):
    """A rate at which nothing is learnt leaves more unlearnt than the preset's own."""
    table = rate_table(Store(tmp_path), group_of(1e-4, 1.0)).set_index(["size", "times"])
    for size in ("1K", "3K"):
        assert table.kl[size, 1e-4] > table.kl[size, 1.0] + 2 * table.kl_se[size, 1.0]
        assert table.share[size, 1e-4] > 1  # not even single words are learnt
        assert table.rate[size, 1.0] == PRESETS["smoke"].training.optimisation.lr
    assert set(table.language) == {"PCFG"}


def test_a_preset_trains_at_the_rates_that_its_record_found_best():
    domains = PRESETS["workstation"].domains
    for language in ("PCFG", "HMM", "HMM-LSTM"):
        domain = domains[language]
        chosen = {size: domain.tuned.get(size, 1.0) for size in domain.sizes}
        assert best_rates(rows("workstation", "rates", language=language)) == chosen
