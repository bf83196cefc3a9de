import copy

import numpy as np
import pytest
import torch
from torch import nn

import troth
from troth.certificates.record import Certificate, collect, fingerprint
from troth.types import Refusal

FOUND = collect(
    [
        Certificate(2, 0.5, 0.9, 95, 100, True),
        Certificate(1, 0.2, 0.7, 80, 100, True),
        Certificate(-1, 0.0, 0.4, 50, 100, False),
    ],
    {},
)


def test_certified_accuracy_by_hand():
    assert FOUND.certified([0, 0.2, 0.3, 0.5, 0.6]).tolist() == [
        [True, True, True, True, False],
        [True, True, False, False, False],
        [False] * 5,
    ]
    assert FOUND.accuracy([2, 1, 1], [0, 0.3]) == pytest.approx([2 / 3, 1 / 3])
    assert FOUND.accuracy([2, 0, -1], [0]) == pytest.approx([1 / 3])  # −1 is no class


def test_types():
    assert FOUND.label.dtype == FOUND.used.dtype == np.int64
    assert FOUND.radius.dtype == np.float64 and FOUND.settled.dtype == np.bool_
    assert collect([], {}).radius.shape == (0,)


def test_a_fingerprint_tells_parameters_apart():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    first = fingerprint(net)
    assert first == fingerprint(copy.deepcopy(net)) == fingerprint(net.state_dict())
    assert len(first) == 64
    net[1].running_mean[0] = 1e-3
    assert fingerprint(net) != first
    v = torch.arange(6.0)
    square = v.reshape(2, 3)
    assert len({fingerprint(t) for t in (v, v.double(), square, v + 1e-6)}) == 4
    assert fingerprint(square.T.contiguous().T) == fingerprint(square)


def test_certificates_are_of_one_model():
    net = nn.Linear(4, 3).eval()
    c = troth.certify(net, torch.zeros(2, 4), n=50)
    c.check(net)
    assert c.record["parameters"] == fingerprint(net)
    assert c.record["transform"] == "pixel" and c.record["compiled"] is False
    with torch.no_grad():
        net.bias[0] += 1
    with pytest.raises(Refusal, match=r"for parameters .*certify it again"):
        c.check(net)


def test_a_plain_function_says_what_it_speaks_of_if_told():
    w = torch.ones(4, 3)
    c = troth.certify(lambda x: x @ w, torch.zeros(2, 4), n=50)
    with pytest.raises(
        Refusal, match="do not record the hash of the model's parameters"
    ):
        c.check(w)
    told = troth.certify(lambda x: x @ w, torch.zeros(2, 4), n=50, parameters={"w": w})
    told.check({"w": w})
    with pytest.raises(Refusal):
        told.check({"w": w + 1})
