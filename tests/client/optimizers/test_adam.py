import math

import pytest
import torch

from troth.client.optimizers.adam import adam

from ..hand import number


def test_by_hand():
    # g = 2 then 0: m = 0.2, 0.18; s = 0.004, 0.003996
    v, lr = number(0.0), number(1.0)[0]
    v, moments = adam().step(v, torch.full_like(v, 2.0), adam().init(v), lr)
    v, moments = adam().step(v, torch.zeros_like(v), moments, lr)
    second = (0.18 / 0.19) / math.sqrt(0.003996 / 0.001999)
    assert v.item() == pytest.approx(-1 - second, abs=1e-7)
    assert [m.item() for m in moments] == pytest.approx([0.18, 0.003996, 2.0])
