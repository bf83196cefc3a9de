"""A solver and a personalizer with what an experiment says of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from troth import build, lookup
from troth.config import reader
from troth.engine.engine import Plan
from troth.types import Refusal

OWNERS = ("fedbn", "fedper", "fedrep", "l2sgd", "mapper", "mixture", "per_fedavg")
OWNERS += ("coupled", "pfedme")
LOOP = Plan("loop", 1)


def made(personalizer: Any, **sections: Any) -> build.Built:
    tree = {
        "data": {"name": "colored", "base": "digits"},
        "partition": {"name": "iid", "clients": 4},
        "model": {"name": "celeba_cnn", "channels": 2, "blocks": 1},
        "train": {"rounds": 1, "steps": 2, "batch": 6} | sections.pop("train", {}),
        "personalizer": personalizer,
        "engine": {"device": "cpu"},
    }
    return build.build(reader.from_dict(tree | sections), plan=LOOP)


def test_these_own_their_reply() -> None:
    """All others stand beside any solver."""
    for name in lookup.names("personalizer"):
        if name in OWNERS:
            with pytest.raises(Refusal):
                made(name, solver="fedprox")
        else:
            made(name, solver="fedprox")


@pytest.mark.parametrize("name", OWNERS)
def test_a_solver_that_would_never_run_is_refused(name: str) -> None:
    words = f"'{name}' makes the client's update itself, and solver 'scaffold' would"
    with pytest.raises(Refusal, match=words):
        made(name, solver="scaffold")


NOISE = [{"name": "noise", "sigma": 0.5}]


@pytest.mark.parametrize("name", OWNERS)
def test_an_augment_of_its_own_needs_a_phase_of_its_own(name: str) -> None:
    own = {"name": name, "augment": NOISE}
    if name == "per_fedavg":
        assert made(own).federation.engine.client.finish is not None
        return
    words = f"'{name}' trains one model .*personalizer.augment would change nothing"
    with pytest.raises(Refusal, match=words):
        made(own)


@pytest.mark.parametrize("name", ["l2sgd", "per_fedavg", "fedper"])
def test_the_augment_of_training_reaches_those_that_own_their_reply(name: str) -> None:
    found = []
    for augment in ([], NOISE):
        built = made(name, train={"augment": augment})
        list(built.federation.train())
        found.append(built.federation.broadcast.w)
    assert not torch.equal(*found)


def test_an_augment_after_the_last_round_is_the_personalizers() -> None:
    """It changes what clients end with, and nothing of the rounds."""
    shared, own = [], []
    for part in ({}, {"augment": NOISE}):
        f = made({"name": "per_fedavg", **part}).federation
        list(f.train())
        list(f.finish(2))
        shared.append(f.broadcast.w)
        own.append(f.population.read(f.members))
    assert torch.equal(*shared)
    assert not torch.equal(*own)


@pytest.mark.parametrize(
    ("variant", "least"), [("first_order", 2), ("hessian_free", 3)]
)
def test_a_batch_that_cannot_be_divided_is_refused_at_once(
    variant: str, least: int
) -> None:
    own = {"name": "per_fedavg", "variant": variant}
    with pytest.raises(Refusal, match=f"set train.batch to at least {least}, or"):
        made(own, train={"batch": least - 1})
    made(own, train={"batch": least})
    made(own | {"same_batch": True}, train={"batch": 1})
