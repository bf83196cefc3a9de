import pytest

from troth import lookup
from troth.client.schedules.constant import constant
from troth.types import Refusal


def test_one_in_every_round():
    assert constant() == 1.0
    function = lookup.find("schedule", "constant")
    for r in (0, 7, 99):
        assert lookup.call(function, {}, round_=r, rounds=100) == 1.0
    with pytest.raises(Refusal, match="'constant' has no option 'floor'; it has none"):
        lookup.check("schedule", "constant", {"floor": 0.1})
