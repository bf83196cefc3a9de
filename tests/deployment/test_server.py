"""The server's half, without data and without a network."""

import math

import pytest
import torch

from troth.types import Refusal


def test_the_farthest_site_comes_first(hub, answer):
    made = hub(aggregator="median")
    w = made.broadcast.w.clone()
    served, far = made.serve({2: answer(1), 0: answer(2), 1: answer(50)})
    assert torch.equal(made.broadcast.w, w + 2.0)  # the median
    assert served.messages.client.tolist() == [0, 1, 2]
    assert far[0] == 0 and far[1] == pytest.approx(48 * far[2])
    assert [name for name, _ in made.ranking()] == ["b", "c", "a"]
    made.serve({0: answer(1)})
    assert made.round == 2
    never = hub()
    never.serve({0: answer(1), 1: answer(2)})
    name, distance = never.ranking()[-1]
    assert name == "c" and math.isnan(distance)


def test_it_goes_on_from_its_checkpoint(hub, answer, tmp_path):
    made, again = (hub(server={"name": "adam", "lr": 0.1}) for _ in range(2))
    made.serve({0: answer(1), 1: answer(-3), 2: answer(2)})
    made.save(tmp_path, rounds=77)
    assert again.restore(tmp_path)["rounds"] == 77
    assert again.round == 1 and again.ranking() == made.ranking()
    for one in (made, again):
        one.serve({0: answer(0.5), 1: answer(0.25), 2: answer(2)})
    assert torch.equal(made.broadcast.w, again.broadcast.w)
    with pytest.raises(Refusal, match="holds a run of another experiment .experiment"):
        hub(seed=1).restore(tmp_path)


def test_the_server_has_no_attack_of_its_own(hub):
    drill = {"adversary": {"clients": [1]}, "attack": "model_replacement"}
    assert hub(**drill).serving.rules.attack is None
