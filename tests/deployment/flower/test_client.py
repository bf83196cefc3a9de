"""A site as a Flower ClientApp."""

import numpy as np
import pytest
import torch
from flwr.app import Message

from troth.deployment import site
from troth.deployment.flower import records
from troth.deployment.flower.client import configured
from troth.deployment.state import Keeper
from troth.types import Refusal

RUN = "0123456789abcdef"


def test_a_round_asked_for_twice_moves_a_model_once(tmp_path, deployed, three):
    made = deployed(tmp_path, three)
    kept, start = Keeper(tmp_path / "a" / RUN), torch.zeros(1, 1300)
    content = records.sent(made.hub.outgoing(), made.hub.expected())
    found = []
    for _ in range(2):
        [key] = made.grid.push_messages([Message(content, 100, "train")])
        [reply] = made.grid.pull_messages([key])
        update = records.parts(reply.content)[1]["update"].data
        found.append((update, kept.before(1, start)))
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


def test_a_site_without_room_says_so_and_leaves_the_round(
    tmp_path, deployed, three, lines
):
    (tmp_path / "b").write_text("a file where the folder of states should be")
    hub = deployed(tmp_path, three | {"train": {**three["train"], "rounds": 2}}).run()
    assert hub.round == 2
    for told in lines(tmp_path):
        assert list(told["refused"]) == ["b"]
        assert "cannot be written" in told["refused"]["b"]
        assert set(told["distance"]) == {"a", "c"}


def test_methods_that_reveal_a_personal_model_ask_first(tmp_path, deployed, three):
    three |= {"personalizer": "l2sgd", "solver": "fedavg"}
    made = deployed(tmp_path, three)
    with pytest.raises(Refusal, match="allow that by --share-personal"):
        configured(made.node("a"))
    assert configured(made.node("a", **{"share-personal": True}))[0].name == "a"
    with pytest.raises(Refusal, match="configuration lacks data, state"):
        configured({"experiment": "x", "name": "a"})


def test_what_crosses_the_wire_holds_no_state_and_no_data(tmp_path, deployed, three):
    made = deployed(tmp_path, three)
    assert len(made.run().broadcast.w) == 650
    wire = b"".join(w for _, _, w in made.grid.seen)
    for name in "abc":
        row = Keeper(tmp_path / name / RUN).before(6, torch.zeros(1, 1300))[0]
        own = row[650:].numpy()  # the personal model: behind the control variate
        for k in range(0, 648, 2):
            if own[k : k + 2].any():
                assert own[k : k + 2].tobytes() not in wire
    for size in (len(w) for _, kind, w in made.grid.seen if kind == "train"):
        assert size < 2 * 650 * 4 * 1.02 + 600  # update, extra, and a few words
    arrays, shards = site.own_data(made.experiment, 0, "experiment")
    for row in arrays.x[shards.train[0][:50]]:
        assert row.astype(np.float32).tobytes()[40:120] not in wire
        assert row.astype(np.uint8).tobytes()[10:40] not in wire
