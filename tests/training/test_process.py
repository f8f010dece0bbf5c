"""What processes that share a training tell each other."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from torch import distributed

from sameloss.training.loop import ALONE, Process


def test_alone_a_process_leads_and_its_number_is_the_mean():
    assert ALONE.leads
    assert ALONE.mean(0.1) == 0.1
    assert not Process(rank=1, world=2).leads


def test_two_processes_get_the_same_mean(tmp_path):
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        told = list(pool.map(_mean_of_two, range(2), [str(tmp_path / "meeting")] * 2))
    assert told == [(0.1 + 0.4) / 2] * 2


def _mean_of_two(rank, meeting):
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    mean = Process(rank, 2).mean([0.1, 0.4][rank])
    distributed.destroy_process_group()
    return mean
