from troth import lookup
from troth.client.schedules.constant import constant


def test_one_in_every_round():
    assert constant() == 1.0
    function = lookup.find("schedule", "constant")
    for r in (0, 7, 99):
        assert lookup.call(function, {}, round_=r, rounds=100) == 1.0
