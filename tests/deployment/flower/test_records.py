"""Records: what crosses the wire, and anybody's bytes."""

import numpy as np
import pytest
import torch
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Wire

from troth.deployment import protocol
from troth.deployment.flower import records
from troth.types import Refusal


def test_words_of_a_refusal_are_short_and_plain():
    content = records.record({"refused": "\x1b[2J" + "é\n" * 10_000})
    with pytest.raises(Refusal) as caught:
        records.parts(content)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400


def test_random_bytes_are_no_reply():
    """Flower's parser may raise anything at them; ours refuses, and crashes never."""
    random, through = np.random.default_rng(4), 0
    run = "0123456789abcdef"
    about = {"round": 3, "run": run, "name": "a", "size": 9, "loss": 0.5, "card": ""}
    good = records.record(about, update=torch.ones(5))
    expected = protocol.Expected(5, 0, torch.float32, 3, run, 100, False)
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
            found = protocol.check(expected, "a", *records.parts(content))
        except Refusal:
            continue
        through += 1
        assert found.update.isfinite().all() and 1 <= found.size <= 100
    assert through < 1_500
