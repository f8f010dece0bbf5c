"""Languages with their tasks, and the models that are trained on them."""

from itertools import product

import pytest
import torch

from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.models.sizes import SIZES
from sameloss.studies.same_loss.settings import GPU, LAPTOP, PAPER, SMOKE, some

DOMAINS = {"smoke": SMOKE, "laptop": LAPTOP, "gpu": GPU, "paper": PAPER}
EACH = [pytest.param(DOMAINS[p][n], id=f"{p} {n}") for p, n in product(DOMAINS, ("PCFG", "HMM", "OPT"))]


@pytest.mark.parametrize("domain", EACH)
def test_a_domain_has_tasks_of_its_language_and_compares_at_a_shape_it_has(domain):
    assert domain.tasks
    assert set(domain.tasks) <= set(domain.language.build().tasks)
    assert domain.compared in domain.shapes
    assert all(domain.shapes[size] == shape for size, shape in domain.sizes.items())


@pytest.mark.parametrize("domain", EACH)
def test_sizes_stand_smallest_first_and_count_what_is_built(domain):
    counts = [domain.parameter_count(size) for size in domain.sizes]
    assert counts == sorted(set(counts))
    smallest = next(iter(domain.sizes))
    with torch.device("meta"):
        built = domain.shapes[smallest].build(domain.language.words, domain.language.max_length)
    assert counts[0] == sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.parametrize("size", ["10K", "40K", "155K", "L4K", "L15K", "L57K"])
def test_our_own_sizes_are_named_by_their_count(size):
    count = LAPTOP["HMM" if size.startswith("L") else "PCFG"].parameter_count
    assert count(size) == pytest.approx(1000 * float(size.strip("LK")), abs=600)


def test_paper_shapes_are_the_papers():
    shape = PAPER["PCFG"].sizes["235M"]
    assert (shape.d_model, shape.heads, shape.layers, shape.d_inter) == (1024, 16, 16, 4096)


def test_large_presets_use_the_calibrated_languages():
    for domains in (GPU, PAPER):
        assert domains["PCFG"].language == PAPER_LANGUAGE
        assert domains["HMM"].language == PAPER_HMM


def test_some_of_a_family_in_the_order_asked_for():
    assert some("3K 1K", "smoke") == {name: SIZES["smoke"][name] for name in ("3K", "1K")}
    with pytest.raises(KeyError, match="9K"):
        some("9K", "smoke")
