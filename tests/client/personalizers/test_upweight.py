"""Fine-tuning on batches in which every group has the same share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import cross_entropy

from troth import build
from troth.config import reader
from troth.engine.engine import Plan
from troth.networks import task
from troth.runs.load import Run
from troth.types import Groups, Refusal

Done = Callable[[build.Built], Tensor]
SIZES = [40, 12, 30, 24, 20]  # examples of each client
N = len(SIZES)
LOOP = Plan("loop", 1)
LOOPED = {"how": "loop", "chunk": 1, "device": "cpu"}
PLANS = [LOOP, Plan("vmap", 3), Plan("threads", 1, 2)]
ONE = 3  # the client with examples of one group only


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes; a third of the examples in another group, one client has none."""
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(N), SIZES)
    y = random.integers(0, 2, len(owner))
    x = (np.eye(2)[y] + random.normal(0, 0.8, (len(owner), 2))).astype(np.float32)
    group = np.where(np.arange(len(y)) % 3 == 1, 9, 4)  # any numbers will do
    group[owner == ONE] = 4
    file = tmp_path_factory.mktemp("data") / "all.npz"
    np.savez(file, x=x, y=y, owner=owner, group=group)
    np.savez(file.parent / "unmarked.npz", x=x, y=y, owner=owner)
    return file


def tree(path: Path, personalizer: Any, **sections: Any) -> dict[str, Any]:
    train = {"rounds": 3, "cohort": 4, "steps": 2, "batch": 5, "lr": 0.1}
    return {
        "seed": 2,
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "personalizer": personalizer,
        "engine": {"device": "cpu"},
        "train": train | {"precision": "float64"} | sections.pop("train", {}),
    } | sections


def own(name: str = "upweight", **more: Any) -> dict[str, Any]:
    return {"name": name, "steps": 7, "without": "finetune", **more}


def built(path: Path, personalizer: Any, plan: Plan = LOOP, **more: Any) -> build.Built:
    return build.build(reader.from_dict(tree(path, personalizer, **more)), plan=plan)


def by_hand(ready: build.Built, k: int, steps: int) -> Tensor:
    """Plain steps on what the feed draws by group."""
    data, feed = ready.data, ready.federation.engine.feed
    v = ready.federation.broadcast.w.clone()
    slots, weight = feed.draw(np.array([k]), steps, 3, by_group=True)
    for row, part in zip(slots[:, 0], weight[:, 0], strict=True):
        task.assign(ready.network, v)
        x, y = data.x[data.train.row[row]], data.train.y[row]
        loss = (part * cross_entropy(ready.network(x), y, reduction="none")).sum()
        grad = torch.autograd.grad(loss, list(ready.network.parameters()))
        v = v - 0.1 * torch.cat([g.reshape(-1) for g in grad])
    return v


@pytest.mark.parametrize("plan", PLANS)
def test_follows_batches_drawn_by_group(done: Done, path: Path, plan: Plan) -> None:
    ready = built(path, own(), plan)
    found = done(ready)
    for k in range(N):
        assert torch.allclose(found[k], by_hand(ready, k, 7), 0, 1e-12)


def test_groups_are_drawn_equally_often(path: Path) -> None:
    """And the examples of each; each failing one seed in a million."""
    ready = built(path, own(), train={"batch": 50})
    data, feed = ready.data, ready.federation.engine.feed
    slots, weight = feed.draw(np.arange(N), 400, 0, by_group=True)
    for k in range(N):
        drawn = slots[:, k].reshape(-1)
        assert (drawn >= data.train.start[k]).all()
        assert (drawn < data.train.start[k] + data.train.size[k]).all()
        if k == ONE:
            continue
        assert torch.allclose(weight[:, k], torch.tensor(1 / 50, dtype=torch.float64))
        group = data.group[data.train.row[drawn]]
        first = int((group == 4).sum())
        assert stats.binomtest(first, len(drawn), 0.5).pvalue > 1e-6
        for mark in (4, 9):
            each = torch.bincount(drawn[group == mark])
            held = data.group[data.train.row[torch.arange(len(each))]] == mark
            mine = torch.arange(len(each)) >= data.train.start[k]
            assert stats.chisquare(each[held & mine]).pvalue > 1e-6


def test_the_weight_of_an_example(path: Path) -> None:
    """An example of a group of m_g out of m is drawn m/(2·m_g) times as often.

    The bound is five standard errors, passed by chance less than once in a million.
    """
    ready = built(path, own(), train={"batch": 40})
    data, feed = ready.data, ready.federation.engine.feed
    k = 0
    m = int(data.train.size[k])
    start = int(data.train.start[k])
    rows = data.train.row[start : start + m]
    group = data.group[rows]
    count = {mark: int((group == mark).sum()) for mark in (4, 9)}
    expected = torch.tensor([m / (2 * count[int(g)]) for g in group])
    assert float(expected.sum()) == pytest.approx(m)
    assert count == {4: 15, 9: 9} and m == 24  # by hand: 24/30 and 24/18
    assert sorted({*expected.tolist()}) == pytest.approx([0.8, 4 / 3])
    slots, _ = feed.draw(np.array([k]), 4000, 1, by_group=True)
    times = torch.bincount(slots.reshape(-1) - start, minlength=m).double()
    p = expected / m
    share = times / times.sum()
    error = torch.sqrt(p * (1 - p) / times.sum())
    assert ((share - p).abs() < 5 * error).all()


def test_a_client_with_one_group_is_fine_tuned(done: Done, path: Path) -> None:
    ready = built(path, own())
    assert ready.federation.engine.feed.groups.held.tolist() == [2, 2, 2, 1, 2]
    found = done(ready)
    plain = done(built(path, {"name": "finetune", "steps": 7}))
    same = [torch.equal(a, b) for a, b in zip(found, plain, strict=True)]
    assert same == [False, False, False, True, False]


def test_the_shared_model_does_not_feel_it(done: Done, path: Path) -> None:
    ready, plain = built(path, own()), built(path, "none")
    done(ready)
    for _ in plain.federation.train():
        pass
    assert torch.equal(ready.federation.broadcast.w, plain.federation.broadcast.w)


def test_more_steps_begin_the_same(path: Path) -> None:
    """Clients in a chunk take as many as the longest, and alone their own."""
    feed = built(path, own()).federation.engine.feed
    ids = np.arange(N)
    many, few = (feed.draw(ids, steps, 0, by_group=True)[0] for steps in (9, 4))
    assert torch.equal(many[:4], few)
    alone = feed.draw(ids[2:3], 9, 0, by_group=True)[0]
    assert torch.equal(alone[:, 0], many[:, 2])


def test_the_best_by_validation(done: Done, path: Path) -> None:
    found = done(built(path, own(keep="best", lr=0.9)))
    last = done(built(path, own(lr=0.9)))
    assert found.isfinite().all() and not torch.equal(found, last)


def test_resumed(path: Path, resumed: Callable[[dict[str, Any]], Run]) -> None:
    run = resumed(tree(path, own(), engine=LOOPED))
    assert (run.clients["accuracy"] >= 0).all()


# Refusals


def test_data_without_a_group_are_refused(path: Path) -> None:
    words = "'upweight' needs the group of every example, .* and these data have none"
    with pytest.raises(Refusal, match=words):
        built(path.parent / "unmarked.npz", own())


def test_clients_with_one_group_are_refused(path: Path) -> None:
    words = r"'upweight' draws .* 1 of 5 clients train on .* one only \(client 3\)"
    with pytest.raises(Refusal, match=words):
        built(path, own(without="refuse"))
    with pytest.raises(Refusal, match="without = 'finetune'"):
        built(path, "upweight")


def test_nobody_has_a_conflicting_example() -> None:
    tree: dict[str, Any] = {
        "data": {"name": "colored", "base": "digits", "correlation": 1.0},
        "partition": {"name": "iid", "clients": 3},
        "personalizer": "upweight",
    }
    with pytest.raises(Refusal, match=r"3 of 3 clients .* \(client 0, 1, 2\)"):
        build.build(reader.from_dict(tree), plan=LOOP)


def test_without_data_nothing_is_refused() -> None:
    from troth.client.personalizers import _groups

    _groups.check("upweight", None, "refuse")
    _groups.check("upweight", Groups(2, np.array([2, 0, 2])), "refuse")
