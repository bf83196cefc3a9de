"""The search for the strength that hurts most, and the two attacks that use it."""

import itertools
import math

import pytest
import torch
from clients_sent import applied, drawn, messages
from hypothesis import given
from hypothesis import strategies as st

from troth.server.attacks._search import strongest
from troth.server.attacks.alie import alie
from troth.server.attacks.ipm import ipm
from troth.server.attacks.optimal_alie import optimal_alie
from troth.server.attacks.optimal_ipm import optimal_ipm
from troth.types import Messages, Refusal


@pytest.mark.parametrize("harm", [math.sin, abs, lambda x: -abs(x - 3), lambda x: 1.0])
def test_asks_no_more_than_it_may_and_the_plain_one_first(harm):
    plains, counts = (0.0, 0.5, 1.43, -0.14, 3.0), (1, 2, 3, 4, 7, 20, 100)
    for plain, evaluations in itertools.product(plains, counts):
        asked = []
        best = strongest(
            lambda x, to=asked: to.append(x) or harm(x), plain, evaluations
        )
        assert asked[0] == plain
        assert len({*asked}) == len(asked) <= evaluations
        assert harm(best) == max(map(harm, asked)) >= harm(plain)
        assert all(x * plain >= 0 for x in asked)  # on the side of the plain one


@given(st.floats(0.1, 300))
def test_finds_where_a_defence_begins_to_see_and_a_smooth_top(edge):
    """Harm grows up to an edge and is nothing beyond, or falls slowly."""
    found = strongest(lambda x: x if x <= edge else 0.0, 0.5, 20)
    assert (0.98 if edge <= 32 else 0.9) * edge <= found <= edge
    found = strongest(lambda x: -(math.log(x / edge) ** 2), 0.5, 40)
    assert found == pytest.approx(edge, rel=1e-2)


def test_without_an_end_it_goes_on_doubling():
    """Ten powers of two up to 32, and the other nine looks: 2¹⁴."""
    assert strongest(lambda x: x, 0.5, 20) >= 2.0**13
    assert strongest(lambda x: x, 0.5, 10_000) < 2.0**62
    assert strongest(abs, -0.14, 20) < -1000
    for plain in (0.0, 0.5, -2.0):  # where all is equal the plain one
        assert strongest(lambda x: 1.0, plain, 20) == plain


# The attacks: how each is made of a strength, where it starts, and what it may change

HOSTILE = torch.arange(11) >= 8


def mean(sent):
    return sent.update.mean(dim=0)


def median(sent):
    return sent.update.quantile(0.5, dim=0)


def refusing(sent):
    return torch.zeros_like(sent.update[0])


def watchful(sent):
    """Leaves out rows farther than 4 from the median, and takes the mean."""
    near = (sent.update - median(sent)).norm(dim=1) <= 4
    return sent.update[near].mean(dim=0)


def broken(sent):
    """Not a number as soon as rows are large: then w stays."""
    return sent.update.mean(dim=0) / (sent.update.abs().max() < 5)


PLAIN = {
    optimal_alie: lambda sent, z=0.0: alie(sent, HOSTILE, z=z),
    optimal_ipm: lambda sent, e=0.5: ipm(sent, HOSTILE, epsilon=e),
}
BOTH = pytest.mark.parametrize("attack", PLAIN)


def rows(seed):
    return messages(drawn(11, 5, seed) + 1)


def harm(sent, defence):
    step = defence(sent)
    step = step if step.isfinite().all() else torch.zeros_like(step)
    return float((step - sent.update[~HOSTILE].mean(dim=0)).norm())


@BOTH
def test_never_worse_than_the_plain_attack(attack):
    """With one evaluation, or against a defence that refuses, the very same."""
    for defence in (mean, median, refusing, watchful, broken):
        for evaluations in (1, 2, 20):
            for sent in map(rows, range(5)):
                found = attack(sent, HOSTILE, defence, evaluations=evaluations)
                plain = PLAIN[attack](sent)
                assert harm(found, defence) >= harm(plain, defence)
                if evaluations == 1 or defence is refusing:
                    assert torch.equal(found.update, plain.update)


@BOTH
def test_the_mean_has_no_limit(attack):
    sent = rows(0)
    found, plain = attack(sent, HOSTILE, mean), PLAIN[attack](sent)
    assert harm(found, mean) > 1000 * harm(plain, mean)


@BOTH
def test_asks_the_defence_no_more_than_it_may(attack):
    asked = []

    def counting(sent):
        asked.append(type(sent))
        return mean(sent)

    attack(rows(0), HOSTILE, counting, evaluations=7)
    assert asked == [Messages] * 7
    attack(rows(0), torch.zeros_like(HOSTILE), counting)
    assert len(asked) == 7  # nobody hostile, nothing to try
    with pytest.raises(Refusal, match="asks for 'defence'"):
        applied("attack", attack.__name__, rows(0), hostile=HOSTILE)
