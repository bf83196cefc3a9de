from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from troth import lookup
from troth.server.steps.adagrad import adagrad
from troth.types import Broadcast, Refusal


def test_two_steps_by_hand(walked: Any) -> None:
    """τ = 1, lr = 2; Δ = 3, 4: v = 9, 25, so w = 6/4, + 8/6."""
    found = walked(adagrad, np.array([[3.0], [4.0]]), lr=2.0, tau=1.0)
    np.testing.assert_allclose(found[:, 0], [1.5, 1.5 + 8 / 6], rtol=1e-12)


@pytest.mark.parametrize("beta1", [0.0, 0.9, 1.0])
def test_as_the_paper_defines_it(defined: Any, walked: Any, beta1: float) -> None:
    steps = np.random.default_rng(0).normal(size=(40, 3)) * [1e-4, 1.0, 1e4]
    options = {"lr": 0.1, "beta1": beta1, "tau": 1e-3}
    expected = defined(steps, lambda v, s: v + s, **options)
    np.testing.assert_allclose(
        walked(adagrad, steps, **options), expected, rtol=1e-11, atol=1e-12
    )


def test_steps_shrink_as_they_add_up(walked: Any) -> None:
    """Equal updates: the t-th step is lr/√t, for all coordinates."""
    steps = np.tile([1e-3, 1.0, 1e3], (100, 1))
    found = np.diff(walked(adagrad, steps, lr=0.1, tau=1e-12), axis=0)
    expected = 0.1 / np.sqrt(np.arange(2, 101))
    np.testing.assert_allclose(found, expected[:, None].repeat(3, 1), rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta1": 1.5}, "server.beta1 = 1.5 must lie in"),
        ({"tau": -1.0}, "server.tau = -1.0 must be a finite number above 0"),
        ({"tau": math.nan}, "server.tau = nan must be a finite number above 0"),
    ],
)
def test_refusals(options: dict[str, float], words: str) -> None:
    w = torch.ones(1)
    with pytest.raises(Refusal, match=words):
        adagrad(Broadcast(w, w[:0], w[0]), w, w[:0], **options)


def test_options_are_those_of_the_papers_experiments() -> None:
    expected = {"lr": 0.1, "beta1": 0.0, "tau": 1e-3}
    assert lookup.check("server", "adagrad", {}) == expected
