import os
import shutil

import pytest
import torch
from torch import nn

from troth.certificates.sampling import BOUNDING, CHOOSING, Tiles
from troth.certificates.smoothing import Smoothing
from troth.types import Refusal

CPU = torch.device("cpu")
W = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
X = torch.linspace(-1, 1, 12).reshape(3, 2, 2)


def linear(x):
    return x.flatten(1) @ W


def votes(classify, *tiles, size=50):
    made = Tiles(classify, Smoothing("pixel", 1.0, n=1000, tile=size), CPU)
    return torch.cat([made.votes(X, 5, BOUNDING, t) for t in tiles])


def test_tiles_of_any_size_vote_on_the_same_noise():
    small, large = votes(linear, 0, 1, 2, 3), votes(linear, 0, 1, size=100)
    assert torch.equal(small, large) and len(small.unique()) > 1
    assert torch.equal(votes(linear, 3, 1)[50:], votes(linear, 1))  # in any order


def test_inputs_purposes_and_seeds_have_noise_of_their_own():
    seen = []

    def look(x):
        seen.append(x.clone())
        return linear(x)

    for seed in (0, 1):
        made = Tiles(look, Smoothing("pixel", 1.0, n=50, n0=50, seed=seed), CPU)
        for number in (0, 1):
            for purpose in (CHOOSING, BOUNDING):
                made.votes(X, number, purpose, 0)
    numbers = torch.stack(seen).flatten()
    assert len(numbers.unique()) > 0.97 * len(numbers)  # 2 % meet on the lattice
    assert len(torch.stack([s[0] for s in seen]).flatten().unique()) == 8 * 12


def test_the_classifier_gets_float32_and_no_gradient():
    """And computes in bfloat16 if that is asked for."""
    kinds = []

    def look(x):
        out = linear(x)
        kinds.append((x.dtype, out.dtype, torch.is_grad_enabled()))
        return out

    votes(look, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # of the caller: not recorded
        votes(look, 0)
    s = Smoothing("pixel", 1.0, n=50, precision="bfloat16")
    found = Tiles(look, s, CPU).votes(X, 5, BOUNDING, 0)
    single, half = torch.float32, torch.bfloat16
    assert kinds == [(single, single, False)] * 2 + [(single, half, False)]
    assert (found == votes(linear, 0)).float().mean() > 0.9


def test_scores_that_are_no_numbers_vote_for_nobody():
    def broken(x):
        scores = linear(x)
        scores[::2, 1] = torch.nan
        return scores

    found = votes(broken, 0)
    assert (found[::2] == -1).all() and (found[1::2] >= 0).all()


@pytest.mark.parametrize(
    ("classify", "words"),
    [
        (lambda x: x.flatten(1)[:, 0], r"shape \[50\] for 50 inputs.*no class axis"),
        (lambda x: x.flatten(1)[:, :1], r"shape \[50, 1\].*2 classes or more"),
        (lambda x: x, r"shape \[50, 3, 2, 2\]"),
        (lambda x: linear(x)[:7], r"shape \[7, 4\] for 50 inputs"),
        (lambda x: linear(x).argmax(1), r"shape \[50\]"),
        (lambda x: linear(x).long(), "floating-point"),
        (lambda x: linear(x).numpy(), "returned a ndarray"),
    ],
)
def test_outputs_without_classes_are_refused(classify, words):
    with pytest.raises(Refusal, match=words):
        votes(classify, 0)


def test_on_a_cpu_nothing_is_compiled_unless_asked():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()
    assert not Tiles(net, Smoothing(n=10), CPU).compiled
    assert Tiles(net, Smoothing(n=10), CPU, True).compiled


@pytest.mark.slow("calls a compiler")
@pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "g++")), reason="needs a C++ compiler"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in itself
def test_compiled_tiles_vote_the_same():
    """Also when the classifier got other parameters since, in place."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()
    s = Smoothing("pixel", 1.0, n=400, tile=200)
    plain, fast = (Tiles(net, s, CPU, how) for how in (False, True))
    for _ in range(2):
        one, two = (t.votes(X, 5, BOUNDING, 1) for t in (plain, fast))
        assert (one != two).sum() <= 1  # a tie, to the last digit
        with torch.no_grad():
            net[1].weight.neg_()
