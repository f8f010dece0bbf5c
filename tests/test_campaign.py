"""A sample of the fault campaign finds no fault, and planted ones are found."""

from dataclasses import dataclass

import pytest
from campaign import damage, kills, limits, strangers
from campaign.kills import at_random_moments, before_a_change
from campaign.parts import Part, Trial, run, table
from campaign.victims import Files

from sameloss.errors import StoreError
from sameloss.store.store import SCRATCH, Run

ALL = (*kills.PARTS, *damage.PARTS, *limits.PARTS, *strangers.PARTS, *kills.CONCURRENT)
PARTS = {part.what: part for part in ALL}


@pytest.mark.book
@pytest.mark.parametrize("what", PARTS)
def test_a_sample_of_the_campaign_finds_nothing(what):
    part = PARTS[what]
    if not part.needs():
        pytest.skip("this needs another machine or another user")
    counted = run(part, "sample", trials=2)
    assert counted.faults == {}
    assert counted.tried == 2


@dataclass(frozen=True)
class Lossy(Files):
    """A run that takes what it finds for what it has written."""

    resumable = frozenset({"0.txt"})

    def compute(self, folder, store, report):
        if not (folder / "0.txt").exists():
            (folder / "0.txt").write_text("half")
            (folder / SCRATCH).mkdir(exist_ok=True)
            (folder / "0.txt").write_text("all of it")

    def load(self, folder):
        return (folder / "0.txt").read_text()


def lossy(trial):
    before_a_change(Lossy(), trial)


@pytest.mark.book
def test_a_run_that_believes_half_a_file_is_found_out():
    counted = run(Part("lossy", 1, lossy), "seed", trials=12)
    assert counted.kills > 4
    assert 0 < len(counted.faults) < 12
    assert all("not as undisturbed: ['Lossy/" in fault for fault in counted.faults.values())
    again = run(Part("lossy", 1, lossy), "seed", trials=12)
    assert again.faults.keys() == counted.faults.keys()
    assert table([counted]).loc[0, ["trials", "faults"]].tolist() == [12, len(counted.faults)]


@dataclass(frozen=True)
class Refusing(Run):
    """A run that ends with a sentence where nothing is wrong."""

    def compute(self, folder, store, report):
        raise StoreError("no")


def test_a_run_that_gives_up_is_found_out(tmp_path):
    counted = run(Part("refusing", 1, lambda trial: at_random_moments(Refusing(), trial)), "seed", trials=1)
    assert "StoreError: no" in counted.faults["seed/refusing/0"]


def test_a_trial_notes_what_does_not_hold(tmp_path):
    with pytest.raises(AssertionError, match=r"^what$"):
        Trial(None, tmp_path).check(holds=False, what="what")
