"""Sites that send what they like, to a server that runs on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from troth import replies
from troth.types import Refusal

Random = np.random.Generator


def nothing(random: Random, content: Any) -> None:
    content.clear()


def another_kind(random: Random, content: Any) -> None:
    content["vectors"] = type(content["about"])({"update": random.bytes(50)})


def another_round(random: Random, content: Any) -> None:
    content["about"]["round"] = int(random.integers(1000, 10**9))


def words(random: Random, content: Any) -> None:
    content["about"]["refused"] = "x" * 100_000


def not_a_number(random: Random, content: Any) -> None:
    one = content["vectors"]["update"]
    numbers = np.frombuffer(random.bytes(len(one.data)), np.float32).copy()
    numbers[int(random.integers(len(numbers)))] = np.nan
    one.data = numbers.tobytes()


def numpys_own(random: Random, content: Any) -> None:
    content["vectors"] = type(content["vectors"])([random.normal(size=(3, 4))])


def a_third(random: Random, content: Any) -> None:
    content["third"] = content["about"]


CHANGES: list[Callable[[Random, Any], None]] = [
    *(nothing, another_kind, another_round, words, not_a_number, numpys_own, a_third)
]


def three(tree: dict[str, Any], rounds: int) -> dict[str, Any]:
    tree["partition"]["clients"], tree["train"]["rounds"] = 3, rounds
    tree["train"] |= {"steps": 1, "batch": 2}
    tree["deployment"]["sites"] = ["a", "b", "c"]
    return tree


def tampering(random: Random) -> Callable[[int, Any], Iterator[Any]]:
    """What node 101 makes of its replies in rounds; each comes twice."""

    def tamper(node: int, reply: Any) -> Iterator[Any]:
        if node == 101 and "update" in reply.content["vectors"]:
            k = int(random.integers(len(CHANGES) + 1))
            if k == len(CHANGES):
                yield ValueError("bytes that no parser takes")
                return
            CHANGES[k](random, reply.content)
            yield reply
        yield reply

    return tamper


def test_malformed_replies_reach_no_model(
    tmp_path: Path, deployed: Any, tree: dict[str, Any]
) -> None:
    """One of three sites sends nothing else: the model is that of the other two."""
    tamper = tampering(np.random.default_rng(3))
    hub = deployed(tmp_path, three(tree, 48), tamper).run()
    lines = (tmp_path / "out" / "rounds.jsonl").read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    assert len(rounds) == 48
    assert all(list(r["refused"]) == ["b"] for r in rounds)
    assert all(len(json.dumps(r)) < 8_000 for r in rounds)
    assert all(set(r["distance"]) == {"a", "c"} for r in rounds)
    assert len({r["refused"]["b"].partition(" ")[0] for r in rounds}) > 1
    clean = tmp_path / "clean"
    clean.mkdir()
    quiet = deployed(clean, tree)
    quiet.grid.here.discard(101)
    assert torch.equal(quiet.run_from(2).broadcast.w, hub.broadcast.w)


def test_words_of_a_refusal_are_short_and_plain(loopback: Any) -> None:
    from troth.flower import records

    content = records.record({"refused": "\x1b[2J" + "é\n" * 10_000})
    with pytest.raises(Refusal) as caught:
        records.parts(content)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400


def test_random_bytes_are_no_reply(loopback: Any) -> None:
    """Flower's parser may raise anything at them; ours refuses, and crashes never."""
    from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
    from flwr.proto.recorddict_pb2 import RecordDict as Wire

    from troth.flower import records

    random, through = np.random.default_rng(4), 0
    run = "0123456789abcdef"
    about = {"round": 3, "run": run, "name": "a", "size": 9, "loss": 0.5}
    about["card"] = ""
    good = records.record(about, update=torch.ones(5))
    expected = replies.Expected(5, 0, torch.float32, 3, run, 100, False)
    whole = recorddict_to_proto(good).SerializeToString()
    for i in range(4_000):
        data = bytearray(whole)
        if i % 2:
            data = bytearray(random.bytes(int(random.integers(1, 200))))
        for _ in range(int(random.integers(1, 4))):
            data[int(random.integers(len(data)))] = int(random.integers(256))
        try:
            content = recorddict_from_proto(Wire.FromString(bytes(data)))
        except Exception:
            continue
        try:
            found = replies.check(expected, "a", *records.parts(content))
        except Refusal:
            continue
        through += 1
        assert found.update.isfinite().all() and 1 <= found.size <= 100
    assert through < 1_500
