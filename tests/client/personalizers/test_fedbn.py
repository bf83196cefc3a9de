"""FedBN: normalization layers of the client's own."""

import pytest
import torch

from ..small import THREADS, built, rows

# Of `layered:normed`: conv1 24, norm1 8, conv2 15, fc 12, then 14 statistics.
NORMS = torch.cat([torch.arange(24, 32), torch.arange(59, 73)])


def test_what_travels_and_what_stays(train):
    ours = train(THREADS, "normed", "fedbn", train={"cohort": 6})
    rest = torch.ones(73, dtype=torch.bool)
    rest[NORMS] = False
    assert ours.w[NORMS].equal(ours.built.federation.population.start)
    assert ours.w[59:].tolist() == [0.0] * 7 + [1.0] * 7
    assert (ours.models[:, rest] == ours.w[rest]).all()
    for update in ours.updates:
        assert update.shape == (6, 59)  # statistics go beside it
        assert not update[:, 24:32].any()
    assert torch.pdist(ours.models[:, NORMS], 1).min() > 0.1
    assert (ours.models[:, -7:] > 0).all()  # variances


@pytest.mark.parametrize("rule", ["mean", "median", {"name": "krum", "f": 1}], ids=str)
def test_statistics_are_nobodys_business(train, rule):
    """However they would be put together, and whatever malicious clients send."""

    def sending(value, kind):
        company = {"aggregator": rule, "adversary": {"count": 2}}
        company["attack"] = {"name": "layered:flood", "first": 59, "value": value}
        how = {"statistics": kind, "cohort": 6}
        return train(THREADS, "normed", "fedbn", train=how, **company)

    clean = sending(0.0, "mean")
    for value, kind in ((-1e9, "mean"), (1e9, "median")):
        ours = sending(value, kind)
        assert ours.models.equal(clean.models)
        assert ours.w[:59].equal(clean.w[:59])


def test_other_normalizations(train):
    """A LayerNorm has scale and shift, and no statistics: norm2 alone has."""
    ours = train(THREADS, "layer_normed", "fedbn")
    assert ours.built.federation.population.width == 8 + 6
    same = {"name": "fedper", "layers": ["norm?"]}
    assert train(THREADS, "layer_normed", same).models.equal(ours.models)


def test_it_learns_what_inputs_look_like(train):
    """At rest, the statistics become those of the client's own data."""
    how = {"cohort": 6, "rounds": 1, "steps": 150, "batch": 0, "lr": 0.0}
    ours = train(THREADS, "normed", "fedbn", train=how)
    data, conv = ours.built.data, ours.built.network.get_submodule("1.conv1")
    for k, v in enumerate(ours.models):
        own = ours.named(v)
        x = data.x[data.train.row[rows(data.train, k)]]
        with torch.no_grad():
            inside = torch.nn.functional.linear(x, conv.weight, conv.bias)
        near = {"rtol": 1e-5, "atol": 1e-5}  # 0.9¹⁵⁰ of the way is left
        torch.testing.assert_close(own["norm1.running_mean"], inside.mean(0), **near)
        torch.testing.assert_close(own["norm1.running_var"], inside.var(0), **near)


def test_frozen_statistics_alone(tree):
    """Scale and shift are still the client's own."""
    wanted = tree("normed", "fedbn")
    wanted["model"] = {"name": "layered:normed", "freeze": ["*.running_*"]}
    assert built(wanted, rounds=0).federation.population.width == 8
