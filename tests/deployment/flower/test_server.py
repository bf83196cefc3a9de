"""The server as a Flower ServerApp: rounds, with sites that fail or lie."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from troth import api
from troth.deployment.state import Keeper

RUN = "0123456789abcdef"


def lines(path: Path) -> list[dict[str, Any]]:
    text = (path / "out" / "rounds.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


class Killed(BaseException):
    """As a signal would."""


def test_a_server_that_dies_five_times_gives_the_same_model(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
    random = np.random.default_rng(5)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    wanted = deployed(whole, three).run().broadcast.w
    made = deployed(broken, three)
    for _ in range(5):
        left = int(random.integers(1, 12))  # replies until the end

        def tamper(node: int, reply: Any) -> Any:
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


def test_a_site_that_was_away_goes_on_from_its_state(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
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


def test_a_round_closes_at_its_quorum(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
    three |= {"train": {**three["train"], "rounds": 2}}
    three["deployment"]["quorum"] = 2
    deployed(tmp_path, three).run()
    assert [len(told["distance"]) for told in lines(tmp_path)] == [2, 2]


def test_a_round_closes_at_its_deadline(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
    three |= {"train": {**three["train"], "rounds": 2}}
    three["deployment"]["deadline"] = 0.2
    silent = lambda node, reply: [reply] if node != 102 or _hello(reply) else []  # noqa: E731
    deployed(tmp_path, three, silent).run()
    assert [told["absent"] for told in lines(tmp_path)] == [[2], [2]]


def _hello(reply: Any) -> bool:
    return "version" in reply.content["about"]


def test_too_few_replies_leave_the_model_as_it_is(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
    three |= {"train": {**three["train"], "rounds": 2}}
    three["deployment"] |= {"least": 3, "deadline": 0.2}
    silent = lambda node, reply: [reply] if node != 102 or _hello(reply) else []  # noqa: E731
    made = deployed(tmp_path, three, silent)
    before = made.hub.broadcast.w.clone()
    assert torch.equal(made.run().broadcast.w, before)
    why = "2 replies came and 3 are needed"
    assert [told["why"] for told in lines(tmp_path)] == [why, why]


def test_a_node_with_another_key_or_experiment_does_not_get_in(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
    from troth.deployment.flower import records
    from troth.types import Refusal

    made = deployed(tmp_path, three)
    desk = made.reception()
    desk.keys = {"a": b"A", "b": b"B", "c": b"C"}
    words = {**made.hub.identity, "version": "0.1.0", "name": "b"}
    assert desk.welcome(records.record(words), b"B") == 1
    with pytest.raises(Refusal, match="calls itself b, and its key is another one"):
        desk.welcome(records.record(words), b"A")
    with pytest.raises(Refusal, match="'mallory', which is no site"):
        desk.welcome(records.record({**words, "name": "mallory"}), b"B")
    with pytest.raises(Refusal, match="its parameters is 7, and the server's is 650"):
        desk.welcome(records.record({**words, "parameters": 7}), b"B")
    with pytest.raises(Refusal, match="its version is '9', and the server's is 0.1.0"):
        desk.welcome(records.record({**words, "version": "9"}), b"B")


def tampering(
    random: np.random.Generator, changes: list[Any]
) -> Callable[[int, Any], Iterator[Any]]:
    """What node 101 makes of its replies in rounds; each comes twice."""

    def tamper(node: int, reply: Any) -> Iterator[Any]:
        if node == 101 and "update" in reply.content["vectors"]:
            k = int(random.integers(len(changes) + 1))
            if k == len(changes):
                yield ValueError("bytes that no parser takes")
                return
            changes[k](random, reply.content)
            yield reply
        yield reply

    return tamper


def test_malformed_replies_reach_no_model(
    tmp_path: Path, deployed: Any, malformed: Any, three: dict[str, Any]
) -> None:
    """One of three sites sends nothing else: the model is that of the other two."""
    three["train"] |= {"rounds": 48, "steps": 1, "batch": 2}
    tamper = tampering(np.random.default_rng(3), malformed.CHANGES)
    hub = deployed(tmp_path, three, tamper).run()
    rounds = lines(tmp_path)
    assert len(rounds) == 48
    assert all(list(r["refused"]) == ["b"] for r in rounds)
    assert all(len(json.dumps(r)) < 8_000 for r in rounds)
    assert all(set(r["distance"]) == {"a", "c"} for r in rounds)
    assert len({r["refused"]["b"].partition(" ")[0] for r in rounds}) > 1
    clean = tmp_path / "clean"
    clean.mkdir()
    quiet = deployed(clean, three)
    quiet.grid.here.discard(101)
    assert torch.equal(quiet.run_from(2).broadcast.w, hub.broadcast.w)


def test_sites_say_how_good_their_models_are_on_the_way(
    tmp_path: Path, deployed: Any, three: dict[str, Any]
) -> None:
    """After every second round, and the numbers are those of a simulation."""
    three["evaluate"] = {"every": 2}
    deployed(tmp_path, three).run()
    told = {r["round"]: r.get("evaluation") for r in lines(tmp_path)}
    assert [r for r, found in told.items() if found] == [2, 4]
    assert [told[r]["round"] for r in (2, 4)] == [1, 3]
    [run] = api.run(three, out=tmp_path / "simulated")
    text = (tmp_path / "simulated" / "rounds.jsonl").read_text().splitlines()
    theirs = [json.loads(line) for line in text]
    for kind in ("personal", "shared"):
        for key in ("accuracy_weighted", "accuracy_mean", "loss_mean"):
            for r in (1, 3):
                mine = told[r + 1][kind][key]
                assert mine == pytest.approx(theirs[r]["evaluation"][kind][key], 1e-4)
