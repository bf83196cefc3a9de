"""Fine-tuning on batches in which every group has the same share."""

import numpy as np
import pytest
import torch
from scipy import stats

from troth.client.personalizers._tuned import check_groups
from troth.types import Groups, Refusal

from ..small import built, done, draws, gradient, rows

N, ONE = 5, 3  # clients, and the one with examples of one group only


def own(name="upweight", **more):
    return {"name": name, "steps": 7, "without": "finetune", **more}


def test_follows_batches_drawn_by_group(grouped):
    """Plain steps on what the feed draws by group."""
    ready = built(grouped(own()))
    for k, found in enumerate(done(ready)):
        v = ready.federation.broadcast.w
        for slots in draws(ready, k, 3, 7, by_group=True):
            v = v - 0.1 * gradient(ready, v, slots)
        assert torch.allclose(found, v, 0, 1e-12)


def test_groups_are_drawn_equally_often(grouped):
    """And the examples of each; each failing one seed in a million."""
    ready = built(grouped(own(), train={"batch": 50}), rounds=0)
    data, feed = ready.data, ready.federation.engine.feed
    slots, weight = feed.draw(np.arange(N), 400, 0, by_group=True)
    for k in range(N):
        drawn, mine = slots[:, k].reshape(-1), rows(data.train, k)
        assert torch.isin(drawn, mine).all()
        if k == ONE:
            continue
        assert torch.allclose(weight[:, k], torch.tensor(1 / 50, dtype=torch.float64))
        times = torch.bincount(drawn - mine[0], minlength=len(mine))
        group = data.group[data.train.row[mine]]
        first = int(times[group == 4].sum())
        assert stats.binomtest(first, len(drawn), 0.5).pvalue > 1e-6
        for mark in (4, 9):
            assert stats.chisquare(times[group == mark]).pvalue > 1e-6


def test_a_client_with_one_group_is_fine_tuned(grouped):
    ready = built(grouped(own()))
    assert ready.federation.engine.feed.groups.held.tolist() == [2, 2, 2, 1, 2]
    found = done(ready)
    plain = done(built(grouped({"name": "finetune", "steps": 7})))
    same = [torch.equal(a, b) for a, b in zip(found, plain, strict=True)]
    assert same == [False, False, False, True, False]


def test_more_steps_begin_the_same(grouped):
    """Clients in a chunk take as many as the longest, and alone their own."""
    feed = built(grouped(own())).federation.engine.feed
    ids = np.arange(N)
    many, few = (feed.draw(ids, steps, 0, by_group=True)[0] for steps in (9, 4))
    assert torch.equal(many[:4], few)
    alone = feed.draw(ids[2:3], 9, 0, by_group=True)[0]
    assert torch.equal(alone[:, 0], many[:, 2])


def test_what_it_refuses(grouped):
    words = "'upweight' needs the group of every example, .* and these data have none"
    with pytest.raises(Refusal, match=words):
        built(grouped(own(), "none"), rounds=0)
    words = r"'upweight' draws .* 1 of 5 clients train on .* one only \(client 3\)"
    with pytest.raises(Refusal, match=words):
        built(grouped(own(without="refuse")), rounds=0)
    with pytest.raises(Refusal, match="without = 'finetune'"):
        built(grouped("upweight"), rounds=0)
    tree = {
        "data": {"name": "colored", "base": "digits", "correlation": 1.0},
        "partition": {"name": "iid", "clients": 3},
        "personalizer": "upweight",  # and nobody has a conflicting example
    }
    with pytest.raises(Refusal, match=r"3 of 3 clients .* \(client 0, 1, 2\)"):
        built(tree)


def test_without_data_nothing_is_refused():
    check_groups("upweight", None, "refuse")
    check_groups("upweight", Groups(2, np.array([2, 0, 2])), "refuse")
