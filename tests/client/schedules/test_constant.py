from troth.client.schedules.constant import constant


def test_one_in_every_round():
    assert constant() == 1.0
