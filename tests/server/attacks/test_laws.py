"""What holds of every attack in the folder: it has its own rows, and only those."""

import contextlib
import math

import clients_sent
import numpy as np
import pytest
import torch
from clients_sent import applied, broadcast, drawn, key, mixed, same

from troth import lookup
from troth.server import rules
from troth.server.server import Rules, Serving
from troth.types import Messages, Refusal

NAMES = lookup.names("attack")
EVERY = pytest.mark.parametrize("name", NAMES)
OPTIONS = {  # for members that cannot do without
    "counter_gradient": {"target": "{d}.npy"},
    "frozen_model": {"target": "{d}.npy", "lam": 0.7},
}
NAN, INF = math.nan, math.inf
AT_LEAST_0 = "must be a finite number of at least 0"
ABOVE_0 = "must be a finite number above 0"
COUPLED = "is known only with personalizer 'coupled'"
REFUSED = [
    ("alie", "z", [NAN, INF, -INF], "must be a finite number; 0"),
    ("counter_gradient", "eta", [0.0, INF], ABOVE_0),
    ("counter_gradient", "pace", [0.0, NAN], ABOVE_0),
    ("counter_gradient", "lam", [-1.0], ABOVE_0),
    ("counter_gradient", "radius", [0.0, NAN], "must be above 0"),
    ("frozen_model", "lam", [-1.0, NAN, INF], AT_LEAST_0),
    ("frozen_model", "lam", ["'auto'"], COUPLED),
    ("frozen_model", "delta", [0.0, NAN, INF], ABOVE_0),
    ("gaussian", "mean", [NAN, INF, -INF], "must be a finite number$"),
    ("gaussian", "std", [-1.0, NAN, INF], f"{AT_LEAST_0}; 0 sends"),
    ("ipm", "epsilon", [-0.5, NAN, INF], f"{AT_LEAST_0}; 0 sends"),
    ("mimic", "client", [-2], "must be the id of a client, or -1 for the client with"),
    ("model_replacement", "factor", [-1.0, NAN, INF], f"{AT_LEAST_0}; 0 means"),
    ("optimal_alie", "evaluations", [0, -3], "must be at least 1"),
    ("optimal_ipm", "evaluations", [0, -3], "must be at least 1"),
    ("random_update", "scale", [-1.0, NAN, INF], AT_LEAST_0),
    ("random_update", "std", [-1.0, NAN, INF], AT_LEAST_0),
    ("sign_flip", "factor", [-1.0, NAN, INF], AT_LEAST_0),
]
UNKNOWN = [
    ("min_max", "direction", "mean", "'mean' is not one of 'std', 'unit', 'sign'"),
    ("min_sum", "direction", "mean", "'mean' is not one of 'std', 'unit', 'sign'"),
    ("infinite", "value", 1.0, r"1\.0 is not one of 'inf', '-inf', 'nan'"),
    ("sign_flip", "of", "all", "'all' is not one of 'own', 'benign'"),
]
HOSTILE = torch.tensor([False, True, False, False, True, False, False])
NOBODY = torch.zeros_like(HOSTILE)


@pytest.fixture(autouse=True, scope="module")
def _targets(tmp_path_factory):
    """Models that an attacker may want, in the folder where the tests run."""
    place = tmp_path_factory.mktemp("targets")
    for d in (1, 5):
        np.save(place / f"{d}.npy", np.linspace(1, 2, d))
    with contextlib.chdir(place):
        yield


def options(name, d):
    """Of a member, for models of d parameters."""
    given = OPTIONS.get(name, {})
    return {k: v.format(d=d) if k == "target" else v for k, v in given.items()}


def messages(dtype, d=5, extra=2):
    n = len(HOSTILE)
    beside = drawn(n, extra, dtype=dtype)
    update = drawn(n, d, dtype=dtype)
    return clients_sent.messages(update, torch.arange(n) * 3, extra=beside)


def attacked(name, sent, hostile=HOSTILE, **given):
    """As the round does it."""
    given = options(name, sent.update.shape[1]) | given
    given |= {"hostile": hostile, "defence": lambda tried: tried.update.mean(dim=0)}
    result, _, _ = applied("attack", name, sent, **given)
    assert isinstance(result, Messages)
    return result


@pytest.mark.parametrize(("name", "option", "values", "words"), REFUSED)
def test_refusals(name, option, values, words):
    """Before the first round, also where nobody in it is hostile."""
    for value in values:
        given = {option: "auto" if value == "'auto'" else value}
        with pytest.raises(Refusal, match=f"{name}'s {option} = {value} {words}"):
            attacked(name, messages(torch.float32), NOBODY, **given)


def test_unknown_words():
    for name, option, value, words in UNKNOWN:
        with pytest.raises(Refusal, match=words):
            lookup.check("attack", name, {option: value})


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 5])
def test_only_rows_of_its_own_change(name, dtype, d):
    """Bit for bit, with the same type and shape; what it reads stays as it was."""
    sent, hostile = messages(dtype, d), HOSTILE.clone()
    sent.update[0] = torch.nan
    sent.update[2, -1], sent.update[3, 0] = -0.0, 1e-45
    kept = Messages(*(field.clone() for field in sent))
    found = attacked(name, sent, hostile)
    assert same(sent, kept) and torch.equal(hostile, HOSTILE)
    assert same(mixed(found, ~HOSTILE), mixed(sent, ~HOSTILE))
    assert same(found[1:], sent[1:])
    assert (found.update.shape, found.update.dtype) == (sent.update.shape, dtype)
    assert found.update.device == sent.update.device
    assert same(attacked(name, sent), found)  # twice the same


@EVERY
def test_of_nobody_and_of_all(name):
    sent = messages(torch.float32)
    assert same(attacked(name, sent, NOBODY), sent)
    assert attacked(name, sent, ~NOBODY).update.shape == sent.update.shape


@pytest.mark.parametrize("name", ["gaussian", "random_update"])
def test_a_client_draws_by_its_id_and_the_round(name):
    """Whatever row it has, and whoever else is there."""
    assert "key" in lookup.asks(lookup.find("attack", name))
    sent, every = messages(torch.float32), ~NOBODY
    whole = attacked(name, sent, every).update
    order = torch.tensor([5, 2, 0, 3, 1, 6, 4])
    assert torch.equal(attacked(name, mixed(sent, order), every).update, whole[order])
    alone = attacked(name, mixed(sent, torch.tensor([1])), every[:1])
    assert torch.equal(alone.update[0], whole[1])
    later = attacked(name, sent, every, key=key(1)).update
    assert not (later == whole).any()


def served(name, strength):
    """The updates that reach the filters of a round, at some strength."""
    rule = rules.lift("attack", name, lookup.check("attack", name, options(name, 5)))
    mean = rules.lift("aggregator", "mean", {})
    server = rules.lift("server", "sgd", {"lr": 1.0})
    every = Rules(rule, (), mean, server, mean, strength)
    sent, w = messages(torch.float64, extra=0), torch.zeros(5, dtype=torch.float64)
    desk = Serving(every, 0, 0, torch.device("cpu"))
    return desk.serve(broadcast(w), sent, 0, HOSTILE).messages.update


@EVERY
def test_strength_0_is_no_attack_and_half_is_half_way(name):
    own, whole = messages(torch.float64, extra=0).update, served(name, 1.0)
    assert same(served(name, 0.0), own)
    assert not same(whole[HOSTILE], own[HOSTILE])
    if name != "infinite":
        torch.testing.assert_close(served(name, 0.5), (own + whole) / 2)
        torch.testing.assert_close(served(name, 2.0), 2 * whole - own)
