"""What holds of every personalizer in the folder.

One that stands beside a solver gives a `Personal`; one that owns the reply a `Client`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from troth import build, lookup
from troth.client.adversarial.pgd import pgd
from troth.client.client import descent
from troth.client.regularizers.l2sq import l2sq
from troth.config import reader
from troth.config.schema import Part
from troth.engine import packing
from troth.engine.engine import Plan
from troth.networks import task as tasks
from troth.networks.masks import Masks
from troth.types import Anchor, Batch, Broadcast, Budget, Client, Personal, Task

NAMES = lookup.names("personalizer")
OPTIONS: dict[str, dict[str, Any]] = {  # for members that cannot do without
    name: {"without": "finetune"} for name in ("upweight", "group_dro")
}
OPTIMIZERS = lookup.names("optimizer")
CLIENTS = 3


def network() -> nn.Module:
    """Two layers, one of which normalises."""
    return nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)).double()


def problem() -> Task:
    """A classifier of three numbers into two classes: d = 14, float64."""
    return tasks.functional(tasks.Objective(network(), 2), "float64")


def drawn(*shape: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def batch(client: int = 0) -> Batch:
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    label = torch.tensor([0, 1, 1, 0, 1, 0])
    x = drawn(6, 3, seed=client)
    return Batch(x, label, weight, torch.tensor(0), torch.tensor(1))


def made(name: str, task: Task, optimizer: str) -> Personal | Client:
    given = lookup.check("personalizer", name, OPTIONS.get(name, {}))
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    personal = lookup.call(
        lookup.find("personalizer", name),
        given,
        task=task,
        descent=descent(part, 0.1, 0.0),
        solving=descent(part, 0.1, 0.0),
        regularizer=l2sq(),
        adversarial=pgd(task, 1.0, bounds=[]),
        budget=Budget(steps=3),
        work=Budget(steps=3),
        share=0.5,
        masks=Masks(network()),
    )
    assert isinstance(personal, Personal | Client)
    return personal


def stepped(one: Personal | Client, w: Tensor, state: Any, seen: Batch) -> Any:
    """The state after a step, whichever sort it is."""
    scale = torch.ones((), dtype=w.dtype)
    if isinstance(one, Personal):
        return one.step(state, Anchor(w, w + 1, w), seen, seen, scale)
    sent = Broadcast(w, w.new_zeros(one.extra), scale)
    carry = one.local.step(sent, one.local.begin(sent, state), seen, seen)
    reply, state = one.local.end(sent, carry, state, seen)
    assert reply.update.shape == w.shape
    assert reply.extra.shape == (one.extra,)
    return state


@pytest.fixture(params=[(n, o) for n in NAMES for o in OPTIMIZERS], ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[Personal | Client, Task]:
    task = problem()
    return made(request.param[0], task, request.param[1]), task


Case = tuple[Personal | Client, Task]


def test_all_are_found() -> None:
    late = {"finetune", "ditto_finetune", "ewc", "skl"}
    assert {"none", "local", "ditto"} | late <= set(NAMES)


def test_the_state_is_a_tuple_of_tensors(case: Case) -> None:
    one, task = case
    w0 = drawn(task.d, seed=10)
    state = one.init(w0)
    assert isinstance(state, tuple)
    flat = packing.leaves(state)
    assert all(isinstance(leaf, Tensor) for leaf in flat)
    assert all(leaf.dtype == w0.dtype for leaf in flat)  # it is packed into one row


def test_a_newcomer_predicts_with_a_whole_model(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    model = one.model(w, one.init(w0))
    assert model.shape == (task.d,)
    assert model.dtype == w0.dtype


def test_a_step_keeps_the_shapes(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    before = one.init(w0)
    after = stepped(one, w, before, batch())
    old, new = packing.leaves(before), packing.leaves(after)
    assert [leaf.shape for leaf in new] == [leaf.shape for leaf in old]
    assert [leaf.dtype for leaf in new] == [leaf.dtype for leaf in old]
    assert all(leaf.isfinite().all() for leaf in new)
    assert one.model(w, after).shape == (task.d,)
    packing.like(before, new)  # the same tree


def test_twice_the_same(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    first = stepped(one, w, one.init(w0), batch())
    again = stepped(one, w, one.init(w0), batch())
    pairs = zip(packing.leaves(first), packing.leaves(again), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_does_not_touch_what_it_reads(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    seen = batch()
    state = stepped(one, w, one.init(w0), seen)  # moments that are not zero
    read = [w0, w, *packing.leaves(state), *seen]
    kept = [t.clone() for t in read]
    stepped(one, w, state, seen)
    one.model(w, state)
    assert all(torch.equal(a, b) for a, b in zip(read, kept, strict=True))


def test_clients_together_as_each_alone(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    seen = [batch(k) for k in range(CLIENTS)]
    state = one.init(w0)
    alone = [packing.leaves(stepped(one, w, state, b)) for b in seen]
    stacked = Batch(*(torch.stack(field) for field in zip(*seen, strict=True)))
    rows = [leaf.expand(CLIENTS, *leaf.shape) for leaf in packing.leaves(state)]

    def lifted(flat: list[Tensor], b: Batch) -> list[Tensor]:
        return packing.leaves(stepped(one, w, packing.like(state, flat), b))

    if not rows:  # nothing to carry
        return
    together = torch.func.vmap(lifted)(rows, stacked)
    for k, leaves in enumerate(alone):
        for a, b in zip(leaves, together, strict=True):
            torch.testing.assert_close(b[k], a, rtol=1e-12, atol=1e-13)


# Whole federations, however clients step

SIZES = [5, 12, 3, 26, 14, 9]  # examples of each client
LOOP = Plan("loop", 1)
PLANS = [Plan("vmap", 3), Plan("threads", 1, 2)]  # a trace takes half a second
NORMED = """
from torch import nn


def first(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Linear(36, classes))


def second(shape, classes):
    inner = nn.Linear(36, 4), nn.BatchNorm1d(4), nn.Tanh()
    return nn.Sequential(nn.Flatten(), *inner, nn.Linear(4, classes))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Images in three classes of clients of unequal size; and models of a guest."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("data")
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.integers(0, 256, (len(owner), 6, 6), dtype=np.uint8)
    y = random.integers(0, 3, len(owner))
    group = np.arange(len(y)) % 3 // 2
    np.savez(path / "all.npz", x=x, y=y, owner=owner, group=group)
    (path / "normed.py").write_text(NORMED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        yield path
    sys.modules.pop("normed", None)


def trained(folder: Path, plan: Plan, **sections: Any) -> tuple[Tensor, Tensor]:
    """w and all clients' models at the very end."""
    tree: dict[str, Any] = {
        "seed": 3,
        "data": {"name": "npz", "path": str(folder / "all.npz")},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "model": "normed:second",
        "train": {"rounds": 2, "steps": 2, "batch": 4, "lr": 0.05},
        "engine": {"device": "cpu"},
    }
    tree["train"]["precision"] = "float64"
    f = build.build(reader.from_dict(tree | sections), plan=plan).federation
    for _ in f.train():
        pass
    everyone = np.arange(len(SIZES))
    for _ in f.finish(4):
        pass
    return f.broadcast.w, f.engine.models(f.broadcast.w, f.population.read(everyone))


def assert_all_plans_agree(folder: Path, **sections: Any) -> None:
    expected = trained(folder, LOOP, **sections)
    for plan in PLANS:
        for a, b in zip(trained(folder, plan, **sections), expected, strict=True):
            assert a.isfinite().all()
            assert (a - b).abs().max() <= 1e-10, plan


def short(name: str, **more: Any) -> dict[str, Any]:
    """A personalizer that does not work for fifty epochs."""
    options = OPTIONS.get(name, {}) | ({} if name == "none" else {"steps": 6})
    return {"name": name, **options, **more}


@pytest.mark.parametrize("name", NAMES)
def test_loop_vmap_and_threads_agree(folder: Path, name: str) -> None:
    assert_all_plans_agree(folder, personalizer=short(name))


REGULARIZERS = lookup.names("regularizer")


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_they_agree_with_every_regularizer(folder: Path, regularizer: str) -> None:
    own = {"name": "ditto", "lam": 0.5}
    assert_all_plans_agree(folder, personalizer=own, regularizer=regularizer)


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize(
    ("name", "free"), [("ditto", "local"), ("ditto_finetune", "finetune")]
)
def test_running_statistics_feel_no_pull(
    folder: Path, name: str, free: str, regularizer: str
) -> None:
    """Those of a normalisation of the inputs depend on the batches alone."""
    sections, plan = {"model": "normed:first", "regularizer": regularizer}, PLANS[1]
    w, v = trained(folder, plan, personalizer=short(name, lam=5.0), **sections)
    _, alone = trained(folder, plan, personalizer=short(free), **sections)
    assert torch.equal(v[:, -72:], alone[:, -72:])
    assert not torch.allclose(v[:, -72:], w[-72:], 0, 1e-3)
    assert not torch.allclose(v[:, :-72], alone[:, :-72], 0, 1e-5)
