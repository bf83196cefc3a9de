import numpy as np
import pytest
import torch

from troth.engine.batches import Feed
from troth.types import Budget, Data, Phase, Split

SIZES = [11, 1, 4, 3, 20, 9]  # 1, 3 and 4 fit into a batch
ALL = np.arange(len(SIZES))
F64 = torch.float64


def ragged(sizes, first_row=0):
    size = torch.tensor(sizes)
    slots = int(size.sum())
    row = torch.arange(first_row, first_row + slots)
    return Split(row, row % 7, torch.cumsum(size, 0) - size, size)


def feed(sizes=SIZES, batch=4, drop_last=False, seed=0, dtype=F64, valid=None):
    """Row r of the data is filled with r; the slots of training are its first rows."""
    valid = [2, 0, 5, 1, 0, 3] if valid is None else valid
    train, held = ragged(sizes), ragged(valid, sum(sizes))
    x = torch.arange(sum(sizes) + sum(valid), dtype=torch.uint8)[:, None].expand(-1, 3)
    return Feed(Data(x.contiguous(), train, held, train), batch, drop_last, seed, dtype)


def seen(f, slots, weight, k):
    """What client k (of all) sees, step by step, counted from its own first slot."""
    first = int(f.data.train.start[k])
    return [
        [int(s) - first for s, w in zip(row[k], part[k], strict=True) if w > 0]
        for row, part in zip(slots, weight, strict=True)
    ]


def test_which_feeds_draw_alike():
    one, other = feed(), feed()
    other.data.train.y[:] = 0  # labels do not matter
    assert one.alike(other)
    others = [feed(seed=1), feed(batch=5), feed(drop_last=True), feed(dtype=torch.half)]
    others.append(feed(sizes=[11, 1, 4, 3, 9, 20]))
    assert not any(one.alike(another) for another in others)


@pytest.mark.parametrize("batch", [0, 1, 3, 4, 20, 50])
def test_every_example_exactly_once_an_epoch(batch):
    """Also of clients that are smaller than a batch, and with all data in one (0)."""
    f = feed(batch=batch)
    steps, per_step = 2 * int(f.per_epoch.max()), batch or max(SIZES)
    assert f.batch == per_step
    assert f.per_epoch.tolist() == [-(-size // per_step) for size in SIZES]
    slots, weight = f.draw(ALL, steps, 3)
    assert slots.shape == weight.shape == (steps, len(SIZES), per_step)
    for k, size in enumerate(SIZES):
        each = int(f.per_epoch[k])
        batches = seen(f, slots, weight, k)
        for first in range(0, steps - each + 1, each):
            epoch = batches[first : first + each]
            assert sorted(sum(epoch, [])) == list(range(size))
            assert [len(b) for b in epoch[:-1]] == [per_step] * (each - 1)
    batches = seen(f, slots, weight, 4)  # epochs have orders of their own
    assert (batches[: steps // 2] != batches[steps // 2 :]) == (per_step < 20)


def test_weights_are_means_with_nothing_on_padding():
    f = feed()
    slots, weight = f.draw(ALL, 15, 0)
    assert weight.dtype == F64
    assert (weight.sum(-1) - 1).abs().max() < 1e-15
    for k, size in enumerate(SIZES):
        for t in range(15):
            count = min(4, size - t % int(f.per_epoch[k]) * 4)
            expected = [1 / count] * count + [0.0] * (4 - count)
            assert weight[t, k].tolist() == expected
    own = torch.arange(len(SIZES))[:, None].expand(-1, 4)
    start, size = f.data.train.start[own], f.data.train.size[own]
    assert ((slots >= start) & (slots < start + size)).all()  # padding is its own too
    _, weight = feed(dtype=torch.float32).draw(ALL, 2, 0)
    assert weight.dtype == torch.float32
    assert weight[0, 0].tolist() == [0.25] * 4  # exact
    assert weight[0, 3].tolist() == [*torch.full((3,), 1 / 3).tolist(), 0]


def test_drop_last_leaves_the_short_batch_out():
    f = feed(drop_last=True)
    assert f.per_epoch.tolist() == [2, 1, 1, 1, 5, 2]
    slots, weight = f.draw(ALL, 8, 0)
    for k in (0, 4, 5):
        batches, each = seen(f, slots, weight, k), int(f.per_epoch[k])
        assert all(len(b) == 4 for b in batches)
        assert len({*sum(batches[:each], [])}) == 4 * each
    for k in (1, 2, 3):  # smaller than a batch: they see everything
        assert seen(f, slots, weight, k) == [list(range(SIZES[k]))] * 8
    every = {e for r in range(30) for e in sum(seen(f, *f.draw(ALL, 2, r), 0), [])}
    assert every == set(range(11))  # which is left out differs from round to round


@pytest.mark.parametrize("drop_last", [False, True])
def test_steps_of_a_phase(drop_last):
    """By batches, or by examples as in the code of Ditto's authors."""
    f = feed(drop_last=drop_last)

    def steps(*budgets):
        return f.steps(Phase(None, None, None, budgets)).tolist()

    by_batches = [2 if drop_last else 3, 1, 1, 1, 5, 2 if drop_last else 3]
    assert steps(Budget(epochs=3)) == [3 * one for one in by_batches]
    for epochs in (1, 3, 7):
        theirs = [max(int(epochs * n / 4), epochs) for n in SIZES]
        assert steps(Budget(epochs=epochs, examples=True)) == theirs
        assert steps(Budget(2, epochs, True)) == [2 + one for one in theirs]
    assert steps(Budget(steps=4), Budget(epochs=1)) == [4, 4, 4, 4, 5, 4]


def test_batches_depend_on_nothing_but_their_client_and_step():
    """Not on the cohort, its order, the steps that follow, or the others' data."""
    f = feed()
    slots, weight = f.draw(ALL, 7, 2)
    for ids in (np.array([4]), np.array([5, 0, 4]), ALL[::-1].copy()):
        some, part = f.draw(ids, 7, 2)
        assert torch.equal(some, slots[:, ids]) and torch.equal(part, weight[:, ids])
    few, part = f.draw(ALL, 5, 2)
    assert torch.equal(few, slots[:5]) and torch.equal(part, weight[:5])
    alone, other = (feed([20, size], valid=[0, 0]) for size in (9, 5))
    ids = np.array([0])
    assert torch.equal(alone.draw(ids, 6, 1)[0], other.draw(ids, 6, 1)[0])


def test_other_rounds_seeds_and_clients_have_other_orders():
    feeds = [feed([20, 20, 20], seed=seed, valid=[0, 0, 0]) for seed in (0, 1)]
    orders = [
        tuple(sum(seen(f, *f.draw(np.arange(3), 5, r), k), []))
        for f in feeds
        for r in range(4)
        for k in range(3)
    ]
    assert len(set(orders)) == len(orders)
    assert all(sorted(order) == list(range(20)) for order in orders)


def test_gather_fetches_inputs_and_the_clients_own_labels():
    f = feed()
    f.data.train.y[3] = 99  # poisoned
    slots = torch.tensor([[3, 0], [12, 47]])
    x, y = f.gather(slots, f.data.train)
    assert x.shape == (2, 2, 3) and x.dtype == torch.uint8
    assert torch.equal(x[..., 0].long(), slots)
    assert y.tolist() == [[99, 0], [12 % 7, 47 % 7]]


def test_whole_is_each_clients_split_padded():
    f = feed()
    ids = np.array([2, 0, 1])  # 5, 2 and 0 validation examples
    batch = f.whole(ids, f.data.valid)
    assert batch.x.shape == (3, 5, 3) and batch.weight.dtype == F64
    for i, k in enumerate(ids):
        size, start = int(f.data.valid.size[k]), int(f.data.valid.start[k])
        expected = [1 / size if size else 0.0] * size + [0.0] * (5 - size)
        assert (batch.weight[i] - torch.tensor(expected, dtype=F64)).abs().max() < 1e-15
        rows = torch.arange(start, start + size) + sum(SIZES)
        assert batch.x[i, :size, 0].tolist() == rows.tolist()
        assert batch.y[i, :size].tolist() == (rows % 7).tolist()


def test_whole_without_any_example_is_nothing():
    f = feed(valid=[0] * len(SIZES))
    for batch in (f.whole(ALL, f.data.valid), f.nothing(len(ALL))):
        assert batch.x.shape == (6, 0, 3) and batch.x.dtype == torch.uint8
        assert batch.y.shape == batch.weight.shape == (6, 0)
        assert batch.weight.dtype == F64 and batch.t.shape == ()
    for batch in (f.nothing(6), f.whole(ALL, f.data.train)):  # lifted over clients
        for name, field in batch._asdict().items():
            assert name == "t" or len(field) == len(ALL), name


def test_a_client_without_examples_gets_weight_0():
    f = feed([5, 0, 6, 0], valid=[0] * 4)
    slots, weight = f.draw(np.arange(4), 2, 0)
    assert weight[:, [1, 3]].abs().sum() == 0
    assert (weight[:, [0, 2]].sum(-1) - 1).abs().max() < 1e-15
    x, _ = f.gather(slots, f.data.train)  # its padding is somewhere in the data
    assert x.shape == (2, 4, 4, 3)


def test_block_is_at_least_one_step_and_shrinks_with_the_clients():
    f = feed()
    assert f.block(1) >= f.block(100) >= f.block(10**9) == 1
    assert f.block(100) * 100 * 4 * 3 <= 2**22


def grouped(marks, sizes, batch=4):
    """Training slots with these groups, a row each."""
    train = ragged(sizes)
    x = torch.zeros(sum(sizes), 1)
    data = Data(x, train, train, train, group=torch.tensor(marks))
    return Feed(data, batch, False, 0, F64)


def test_groups_are_numbered_and_counted():
    f = grouped([7, 7, -2, 7, 7, 10**12], [3, 2, 1])
    assert f.groups.number == 3 and f.groups.held.tolist() == [2, 1, 1]
    slots = torch.tensor([[[0, 2], [3, 4], [5, 5]]])
    assert f.group(slots, True).tolist() == [[[1, 0], [1, 1], [2, 2]]]
    assert f.group(slots, False).shape == (1, 3, 0)


def test_clients_with_no_group_or_one_draw_as_ever():
    one = grouped([0, 0, 0, 0, 0, 1], [0, 5, 1], batch=2)
    for f, held in ((one, [0, 1, 1]), (feed([0, 5, 1], valid=[0] * 3), [0, 0, 0])):
        assert f.groups.held.tolist() == held
        plain, by_group = (f.draw(np.arange(3), 6, 2, g) for g in (False, True))
        assert all(torch.equal(a, b) for a, b in zip(plain, by_group, strict=True))
    assert f.group(plain[0], True).shape == (6, 3, 0)


def test_by_group_every_batch_is_full_of_the_clients_own():
    f, ids = grouped([0, 1, 0, 0, 0, 1, 5, 5, 5], [2, 4, 3]), np.array([2, 0, 1])
    slots, weight = f.draw(ids, 50, 1, by_group=True)
    assert (weight[:, 1:] == 1 / 4).all()  # also of who has fewer than a batch
    own = [{*slots[:, k][weight[:, k] > 0].tolist()} for k in range(3)]
    assert own == [{6, 7, 8}, {0, 1}, {2, 3, 4, 5}]
    again, other = (f.draw(ids, 50, r, by_group=True)[0] for r in (1, 2))
    assert torch.equal(slots, again)
    assert not torch.equal(slots[:, 1:], other[:, 1:])  # in another round others


def test_what_is_kept_of_a_cohort_is_that_of_no_other():
    """The same cohort again, in another order, and with another number of steps."""
    kept, cohorts = feed(), [[0, 4], [0, 4], [4, 0], [4], [0, 4]]
    for round_, (ids, steps) in enumerate(zip(cohorts, [3, 3, 3, 3, 2], strict=True)):
        found = kept.draw(np.array(ids), steps, round_)
        anew = feed().draw(np.array(ids), steps, round_)
        assert all(torch.equal(a, b) for a, b in zip(found, anew, strict=True))


def test_batches_of_several_steps_at_once():
    f = feed()
    drawn = f.drawn(ALL, 5, 1, False, False)
    steps = [batch for _, batch in f.gathered(drawn)]
    assert [first for first, _ in f.blocks(drawn, 2)] == [0, 2, 4]
    cut = [b.at(k) for _, b in f.blocks(drawn, 2) for k in range(len(b.t))]
    for one, other in zip(steps, cut, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert [int(batch.t) for batch in cut] == [0, 1, 2, 3, 4]
