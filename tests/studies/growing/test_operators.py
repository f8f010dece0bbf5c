"""An operator is a map, and a way to begin what is new in it."""

from sameloss.models.layer_maps import repeated
from sameloss.studies.growing.experiment import PUBLISHED, Operator


def test_an_operator_has_its_map_and_a_name_of_its_own():
    operator = Operator(1, 2, "random")
    assert operator.layers(4, 2) == repeated(4, 2, index=1, block=2)
    assert operator.name == "random, i = 1, b = 2"
    names = {Operator(i, b, filling).name for i in (0, 1) for b in (1, 2) for filling in PUBLISHED}
    assert len(names) == 8
