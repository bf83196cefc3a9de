"""The server as a Flower ServerApp: rounds, with sites that fail or lie."""

import json

import numpy as np
import pytest
import torch

from troth import api
from troth.deployment.flower import records
from troth.deployment.state import Keeper
from troth.types import Refusal

RUN = "0123456789abcdef"


class Killed(BaseException):
    """As a signal would."""


def test_a_server_that_dies_three_times_gives_the_same_model(
    tmp_path, deployed, three, lines
):
    random = np.random.default_rng(5)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    wanted = deployed(whole, three).run().broadcast.w
    made = deployed(broken, three)
    for _ in range(3):
        left = int(random.integers(1, 12))  # replies until the end

        def tamper(node, reply):
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return [reply]

        made.grid.tamper = tamper
        with pytest.raises(Killed):
            made.run()
        made.restarted()
    made.grid.tamper = None
    hub = made.run()
    assert hub.run == RUN  # the token of the first start
    assert torch.equal(hub.broadcast.w, wanted)
    assert [r["round"] for r in lines(broken)] == list(range(6))
    assert lines(broken) == lines(whole)
    for name in "abc":
        ends = [Keeper(p / name / RUN) for p in (whole, broken)]
        start = torch.zeros(1, 2 * len(wanted))
        assert torch.equal(*(k.before(6, start) for k in ends))


def test_a_site_that_was_away_goes_on_from_its_state(tmp_path, deployed, three):
    made = deployed(tmp_path, three)
    desk = made.reception()
    desk.gather(3)
    desk.round()
    kept = Keeper(tmp_path / "b" / RUN)
    row = kept.before(1, torch.zeros(1, 1300))
    made.grid.here.discard(101)
    told = [desk.round() for _ in range(2)]
    assert [t["absent"] for t in told] == [[1], [1]]
    assert torch.equal(kept.before(3, row), row)
    made.grid.here.add(101)
    assert desk.round()["absent"] == []
    assert not torch.equal(kept.before(4, row), row)
    assert torch.equal(kept.before(3, row), row)  # the state before it is still there


def silent(node, reply):
    """Node 102 says hello and nothing more."""
    hello = "version" in reply.content["about"]
    return [reply] if node != 102 or hello else []


WHY = "2 replies came and 3 are needed"


@pytest.mark.parametrize(
    ("rules", "tamper", "told"),
    [
        ({"quorum": 2}, None, {"absent": [2], "stayed": False}),
        ({"deadline": 0.2}, silent, {"absent": [2], "stayed": False}),
        ({"least": 3, "deadline": 0.2}, silent, {"why": WHY, "stayed": True}),
    ],
)
def test_a_round_closes_at_its_quorum_or_deadline(
    tmp_path, deployed, three, lines, rules, tamper, told
):
    """With too few replies the shared model stays as it is."""
    three |= {"train": {**three["train"], "rounds": 2}}
    three["deployment"] |= rules
    made = deployed(tmp_path, three, tamper)
    before = made.hub.broadcast.w.clone()
    assert torch.equal(made.run().broadcast.w, before) == told["stayed"]
    for line in lines(tmp_path):
        assert {key: line[key] for key in told} == told
        assert line["stayed"] or len(line["distance"]) == 2


def test_a_node_with_another_key_or_experiment_does_not_get_in(
    tmp_path, deployed, three
):
    made = deployed(tmp_path, three)
    desk = made.reception()
    desk.keys = {"a": b"A", "b": b"B", "c": b"C"}
    words = {**made.hub.identity, "version": "0.1.0", "name": "b"}
    assert desk.welcome(records.record(words), b"B") == 1
    for change, key, why in (
        ({}, b"A", "calls itself b, and its key is another one"),
        ({"name": "mallory"}, b"B", "'mallory', which is no site"),
        ({"parameters": 7}, b"B", "its parameters is 7, and the server's is 650"),
        ({"version": "9"}, b"B", "its version is '9', and the server's is 0.1.0"),
    ):
        with pytest.raises(Refusal, match=why):
            desk.welcome(records.record({**words, **change}), key)


def test_malformed_replies_reach_no_model(tmp_path, deployed, hostile, three, lines):
    """One of three sites sends each kind once: the model is that of the other two."""
    left, many = [None, *hostile.CHANGES], len(hostile.CHANGES) + 1
    three["train"] |= {"rounds": many, "steps": 1, "batch": 2}

    def tamper(node, reply):
        if node == 101 and "update" in reply.content["vectors"]:
            change = left.pop()
            if change is None:
                yield ValueError("bytes that no parser takes")
                return
            change(np.random.default_rng(3), reply.content)
            yield reply  # each comes twice
        yield reply

    hub = deployed(tmp_path, three, tamper).run()
    rounds = lines(tmp_path)
    assert len(rounds) == many and not left
    assert all(list(r["refused"]) == ["b"] for r in rounds)
    assert all(len(json.dumps(r)) < 8_000 for r in rounds)
    assert all(set(r["distance"]) == {"a", "c"} for r in rounds)
    assert len({r["refused"]["b"].partition(" ")[0] for r in rounds}) > 1
    quiet = deployed(tmp_path / "clean", three)
    quiet.grid.here.discard(101)
    assert torch.equal(quiet.run(2).broadcast.w, hub.broadcast.w)


def test_sites_say_how_good_their_models_are_on_the_way(
    tmp_path, deployed, three, lines
):
    """After every second round, and the numbers are those of a simulation."""
    three["evaluate"] = {"every": 2}
    deployed(tmp_path, three).run()
    told = {r["round"]: r.get("evaluation") for r in lines(tmp_path)}
    assert [r for r, found in told.items() if found] == [2, 4]
    assert [told[r]["round"] for r in (2, 4)] == [1, 3]
    api.run(three, out=tmp_path / "simulated" / "out")
    theirs = lines(tmp_path / "simulated")
    for kind in ("personal", "shared"):
        for key in ("accuracy_weighted", "accuracy_mean", "loss_mean"):
            for r in (1, 3):
                mine = told[r + 1][kind][key]
                assert mine == pytest.approx(theirs[r]["evaluation"][kind][key], 1e-4)
