"""FedBN: normalization layers of the client's own."""

import pytest

from ..small import THREADS, built


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


def test_frozen_statistics_alone(tree):
    """Scale and shift are still the client's own."""
    wanted = tree("normed", "fedbn")
    wanted["model"] = {"name": "layered:normed", "freeze": ["*.running_*"]}
    assert built(wanted, rounds=0).federation.population.width == 8
