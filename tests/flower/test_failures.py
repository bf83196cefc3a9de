"""Sites and servers that die, come back, come late or have no room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from troth.keeping import Keeper

RUN = "0123456789abcdef"
DITTO = {"name": "ditto", "lam": 0.5}


def small(tree: dict[str, Any], rounds: int = 6) -> dict[str, Any]:
    tree["partition"]["clients"], tree["train"]["rounds"] = 3, rounds
    tree["train"] |= {"steps": 2, "batch": 4}
    tree["deployment"]["sites"] = ["a", "b", "c"]
    return {**tree, "personalizer": DITTO, "solver": "scaffold"}


def lines(path: Path) -> list[dict[str, Any]]:
    text = (path / "out" / "rounds.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


class Killed(BaseException):
    """As a signal would."""


def test_a_server_that_dies_five_times_gives_the_same_model(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    tree, random = small(tree), np.random.default_rng(5)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    wanted = deployed(whole, tree).run().broadcast.w
    made = deployed(broken, tree)
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
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    made = deployed(tmp_path, small(tree))
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


def test_a_round_asked_for_twice_moves_a_model_once(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    from flwr.app import Message

    from troth.flower import records

    made = deployed(tmp_path, small(tree))
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
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    (tmp_path / "b").write_text("a file where the folder of states should be")
    hub = deployed(tmp_path, small(tree, 2)).run()
    assert hub.round == 2
    for told in lines(tmp_path):
        assert list(told["refused"]) == ["b"]
        assert "cannot be written" in told["refused"]["b"]
        assert set(told["distance"]) == {"a", "c"}


def test_a_round_closes_at_its_quorum(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    tree = small(tree, 2)
    tree["deployment"]["quorum"] = 2
    deployed(tmp_path, tree).run()
    assert [len(told["distance"]) for told in lines(tmp_path)] == [2, 2]


def test_a_round_closes_at_its_deadline(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    tree = small(tree, 2)
    tree["deployment"]["deadline"] = 0.2
    silent = lambda node, reply: [reply] if node != 102 or _hello(reply) else []  # noqa: E731
    deployed(tmp_path, tree, silent).run()
    assert [told["absent"] for told in lines(tmp_path)] == [[2], [2]]


def _hello(reply: Any) -> bool:
    return "version" in reply.content["about"]


def test_too_few_replies_leave_the_model_as_it_is(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    tree = small(tree, 2)
    tree["deployment"] |= {"least": 3, "deadline": 0.2}
    silent = lambda node, reply: [reply] if node != 102 or _hello(reply) else []  # noqa: E731
    made = deployed(tmp_path, tree, silent)
    before = made.hub.broadcast.w.clone()
    assert torch.equal(made.run().broadcast.w, before)
    why = "2 replies came and 3 are needed"
    assert [told["why"] for told in lines(tmp_path)] == [why, why]


def test_what_crosses_the_wire_holds_no_state_and_no_data(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    made = deployed(tmp_path, small(tree))
    made.run()
    wire = b"".join(w for _, _, w in made.grid.seen)
    update = made.hub.broadcast.w
    assert len(update) == 650
    for name in "abc":
        row = Keeper(tmp_path / name / RUN).before(6, torch.zeros(1, 1300))[0]
        own = row[650:].numpy()  # the personal model: behind the control variate
        for k in range(0, 648, 2):
            if own[k : k + 2].any():
                assert own[k : k + 2].tobytes() not in wire
    for size in (len(w) for _, kind, w in made.grid.seen if kind == "train"):
        assert size < 2 * 650 * 4 * 1.02 + 600  # update, extra, and a few words
    from troth import sites

    arrays, shards = sites.own_data(made.experiment, 0, "experiment")
    for row in arrays.x[shards.train[0][:50]]:
        assert row.astype(np.float32).tobytes()[40:120] not in wire
        assert row.astype(np.uint8).tobytes()[10:40] not in wire


def test_a_node_with_another_key_or_experiment_does_not_get_in(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    from troth.flower import records
    from troth.types import Refusal

    made = deployed(tmp_path, small(tree))
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


def test_methods_that_reveal_a_personal_model_ask_first(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    from troth.flower.client import configured
    from troth.types import Refusal

    tree = small(tree)
    tree |= {"personalizer": "l2sgd", "solver": "fedavg"}
    made = deployed(tmp_path, tree)
    with pytest.raises(Refusal, match="agree to that by --share-personal"):
        configured(made.node("a"))
    assert configured(made.node("a", **{"share-personal": True}))[0].name == "a"
    with pytest.raises(Refusal, match="configuration lacks data, state"):
        configured({"experiment": "x", "name": "a"})
