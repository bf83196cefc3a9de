import os
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from troth import build, lookup, seeding
from troth.config import reader
from troth.config.schema import CorruptionPart
from troth.data import corrupt, preprocess
from troth.data.corruptions.from_file import from_file
from troth.engine.local_training import Plan
from troth.types import Arrays, Exact, Refusal, Shards

KEY = seeding.keys(0, "corruption", 0, torch.tensor(3))
X = torch.arange(5 * 6, dtype=torch.float32).reshape(5, 2, 3)
Y = torch.arange(5) % 3
SEVERAL = torch.zeros(5, 3, dtype=torch.long)
P = np.random.default_rng(5).dirichlet(np.ones(3), 9)
FOUR = np.arange(9)[:, None] == 4


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "poison.npz")


def save(path, m=9, **arrays):
    x = 100 + np.arange(m * 6, dtype=np.float32).reshape(m, 2, 3)
    np.savez(path, **({"x": x, "y": np.arange(m) % 3} | arrays))


def take(path, key=KEY, **options):
    return from_file(X, Y, 3, key, path=path, **options)


def which(x):
    """The numbers in the file of examples."""
    return ((x[:, 0, 0] - 100) / 6).long().tolist()


def test_fill_draws_as_many_without_replacement(path):
    save(path)
    x, y = take(path)
    rows = which(x)
    assert len(rows) == len({*rows}) == 5
    assert y.tolist() == [row % 3 for row in rows]
    assert x.dtype == X.dtype and y.dtype == Y.dtype
    assert torch.equal(x[:, 1, 2], x[:, 0, 0] + 5)  # examples stay whole
    save(path, 2)  # a shorter file begins again, and may change
    rows = which(take(path)[0])
    assert sorted(rows[:2]) == [0, 1] and rows == (rows[:2] * 3)[:5]
    save(path, 2, y=np.full(2, 2))
    os.utime(path, ns=(1, 1))
    assert take(path)[1].tolist() == [2] * 5


def test_all_in_its_order_mixed_and_shared(path):
    save(path)
    x, y = take(path, take="all")
    assert which(x) == list(range(9)) and y.tolist() == [k % 3 for k in range(9)]
    x.zero_()  # what is given away is no part of what is kept
    assert which(take(path, take="all")[0]) == list(range(9))
    save(path, 2)
    x, y = take(path, take="all", mix=True, repeat=3)
    assert torch.equal(x[:5], X) and torch.equal(y[:5], Y)
    assert which(x[5:]) == [0, 1] * 3 and y[5:].tolist() == [0, 1] * 3
    x, y = take(path, mix=True)  # fill: as many again
    assert len(x) == len(y) == 10 and torch.equal(x[:5], X)
    save(path, 11)
    how = {"path": path, "take": "share"}
    given = [from_file(X, Y, 3, KEY, 1.0, k, 4, **how) for k in range(4)]
    assert [which(x) for x, _ in given] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7]]
    assert given[3][1].tolist() == [0, 1]


def test_kinds_of_inputs_and_labels(path):
    x, y = torch.zeros(2, 1, 5, 4, dtype=torch.uint8), torch.tensor([0, 0])
    for shape in ((7, 5, 4), (7, 1, 5, 4), (7, 5, 4, 1)):
        np.savez(path, x=np.full(shape, 200, np.uint8), y=np.zeros(7, np.int8))
        new, labels = from_file(x, y, 5, KEY, path=path)
        assert new.shape == x.shape and bool((new == 200).all())
        assert new.dtype == torch.uint8 and labels.dtype == torch.long
    flat = torch.zeros(2, 3, 4, dtype=torch.uint8)  # bytes that are no images
    np.savez(path, x=np.full((7, 3, 4), 200, np.uint8), y=np.zeros(7, np.int8))
    assert from_file(flat, y, 5, KEY, path=path)[0].shape == flat.shape
    save(path, y=np.eye(3, dtype=np.int64)[np.arange(9) % 3])
    labels = from_file(X, SEVERAL, 3, KEY, path=path)[1]
    assert labels.shape == (5, 3) and bool((labels.sum(1) == 1).all())
    save(path, y=np.full(9, -2.5))
    targets = from_file(X, torch.zeros(5), 0, KEY, path=path)[1]
    assert targets.tolist() == [-2.5] * 5 and targets.dtype == torch.float32


def test_soft_labels_take_the_place_of_labels(path):
    save(path, p=P)
    x, y = take(path)
    assert y.shape == (5, 3) and y.is_floating_point()
    np.testing.assert_array_equal(y.numpy(), P[which(x)])
    x, y = take(path, take="all", mix=True, weight=4.0)
    np.testing.assert_array_equal(y[:5].numpy(), np.eye(3)[Y.numpy()])
    np.testing.assert_allclose(y[5:].numpy(), 4 * P)
    save(path)
    x, y = take(path, weight=2.5)
    np.testing.assert_array_equal(y.numpy(), 2.5 * np.eye(3)[np.array(which(x)) % 3])


def test_scales(path):
    x, y = torch.full((2, 1, 2, 2), 255, dtype=torch.uint8), torch.tensor([0, 1])
    wild = np.array([-50.0, 50.0, 0.5, 1.0], np.float32).reshape(1, 1, 2, 2)
    np.savez(path, x=wild, y=np.array([1]))
    with pytest.raises(Refusal, match="x is float32, and .* are uint8; .* add scale"):
        from_file(x, y, 2, KEY, 255.0, path=path)
    np.savez(path, x=wild, y=np.array([1]), scale=1.0)
    found = from_file(x, y, 2, KEY, 255.0, path=path, take="all", mix=True)
    assert isinstance(found, Exact) and found.x.dtype == torch.float32
    assert found.x[2].flatten().tolist() == [-12750, 12750, 127.5, 255]
    assert found.x[:2].unique().tolist() == [255]
    y = torch.tensor([0, 1])
    np.savez(path, x=np.full((1, 2), 51, np.uint8), y=np.array([1]), scale=255)
    found = from_file(torch.zeros(2, 2), y, 2, KEY, 1.0, path=path, take="all")
    torch.testing.assert_close(found[0], torch.full((1, 2), 0.2))
    np.savez(path, x=np.full((1, 2), 8.0), y=np.array([1]), scale=np.float32(16))
    found = from_file(torch.zeros(2, 2), y, 2, KEY, 2.0, path=path, take="all")
    assert found[0].tolist() == [[1.0, 1.0]]
    same = torch.zeros(2, 1, 3, 4, dtype=torch.uint8)
    np.savez(path, x=np.full((1, 3, 4), 9, np.uint8), y=np.array([1]), scale=255)
    assert from_file(same, y, 2, KEY, 255.0, path=path)[0].dtype == torch.uint8


BAD = [
    ({"y": np.full(9, 3)}, "y holds 3, which the data set does .* 3 classes, 0 to 2"),
    ({"y": np.zeros(9)}, r"y is float64 of shape \[9\], .* give whole numbers"),
    ({"x": np.zeros((9, 3, 2))}, r"shape \[3, 2\], and one of the data set \[2, 3\]"),
    ({"x": np.zeros((9, 2, 3), np.uint8)}, "x is uint8, and .* are float32; give both"),
    ({"x": np.full((9, 2, 3), 1e38, np.float32), "scale": 1e-3}, "x times 1000, in"),
    ({"p": P[:, :2]}, r"p is float64 of shape \[9, 2\]; .* of shape \[9, 3\]"),
    ({"p": np.eye(3, dtype=int)[np.arange(9) % 3]}, "p is int64 .* must be fractions"),
    ({"p": 2 * P}, r"p in row 0 adds up to 2 \(9 of 9 rows\); every row must be prob"),
    ({"p": np.where(FOUR, np.nan, P)}, "p in row 4 holds a share .*NaN"),
    *(
        ({"scale": scale}, "scale must be one positive number")
        for scale in (0, -1.0, np.nan, np.inf, np.ones(2), "1", 1j)
    ),
]


def test_refuses_arrays(path):
    for arrays, words in BAD:
        save(path, **arrays)
        with np.errstate(over="ignore"), pytest.raises(Refusal, match=words) as caught:
            take(path)
        assert path in str(caught.value) and "\n" not in str(caught.value)


def test_refuses_what_other_data_sets_cannot_have(path, refuses):
    for y, classes, arrays, words in (
        (torch.zeros(5), 0, {"y": np.full(9, np.nan)}, "y is NaN"),
        (torch.zeros(5), 0, {"y": np.full(9, 1j)}, "y is complex"),
        (torch.zeros(5), 0, {"y": np.zeros(9), "p": P}, "labels p, .* has targets"),
        (SEVERAL, 3, {"y": np.zeros((9, 3), int), "p": P}, "has several labels per ex"),
    ):
        save(path, **arrays)
        refuses(words, from_file, X, y, classes, KEY, path=path)
    save(path, y=np.zeros(9))
    with pytest.raises(Refusal, match="weight = 2.0 needs one label per example"):
        from_file(X, torch.zeros(5), 0, KEY, path=path, weight=2.0)


def test_refuses_files_and_options(path, tmp_path, refuses):
    refuses(r"there is no file .*: set corruption\.path to", take, path)
    save(path, 2)
    for given, words in (
        ({"take": "all", "repeat": 0}, "repeat = 0 must be at least 1"),
        ({"repeat": 2}, "repeat = 2 .* 1 with corruption.take = 'fill'"),
        ({"weight": -1.0}, "weight = -1.0 must be a finite number of at least 0"),
        *(({"weight": v}, f"weight = {v} must be a finite") for v in (np.nan, np.inf)),
        ({"take": "share", "seats": 3}, "2 examples, too few .* among 3 malicious"),
    ):
        refuses(words, take, path, **given)
    check, options = partial(lookup.check, "corruption", "from_file"), {"path": path}
    refuses("needs the option 'path'", check, {})
    refuses("is not one of 'fill', 'all', 'share'", check, options | {"take": "some"})


SIZES = [5, 4, 6]


def deal(path, hostile, redraw=(), share=1.0, **options):
    """Three clients' data, before or after some rounds; files change in between."""
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (sum(SIZES) + 3, 2, 3)).astype(np.uint8)
    arrays = Arrays(x, random.integers(0, 3, len(x)), 3, 255.0)
    cut, none = np.split(np.arange(len(x)), np.cumsum(SIZES)), [np.zeros(0, int)] * 3
    shards = Shards(cut[:3], none, [cut[3], *none[:2]])
    full = lookup.check("corruption", "from_file", {"path": path} | options)
    part = CorruptionPart("from_file", full, share=share, redraw=bool(redraw))
    mask, cpu = np.array(hostile), torch.device("cpu")
    how = corrupt.corruption(part, arrays, mask)
    raw = preprocess.Raw(arrays, shards, torch.float32, cpu, mask, how, 7)
    data = preprocess.as_tensors(raw)
    for round_, change in redraw:
        change()
        preprocess.Redraw(raw, data)(round_, np.arange(3))
    return data


def parts(data):
    size = data.train.size.tolist()
    x, y = torch.split(data.x[data.train.row], size), torch.split(data.train.y, size)
    return list(zip(x, y, strict=True))


def soft_file(path):
    x = np.random.default_rng(1).uniform(-50, 50, (9, 2, 3)).astype(np.float32)
    np.savez(path, x=x, y=np.arange(9) % 3, p=P, scale=1.0)
    return x


def test_honest_clients_keep_their_values_and_labels(path):
    clean = parts(deal(path, [False] * 3))
    assert clean[0][0].dtype == torch.uint8 and clean[0][1].dtype == torch.long
    x, data = soft_file(path), deal(path, [False, True, False], take="all")
    assert data.x.dtype == data.train.y.dtype == torch.float32
    assert data.train.size.tolist() == [5, 9, 6]
    for k in (0, 2):
        assert torch.equal(parts(data)[k][0], clean[k][0].float())
        assert torch.equal(parts(data)[k][1].argmax(1), clean[k][1])
        assert parts(data)[k][1].sum(1).tolist() == [1] * SIZES[k]
    np.testing.assert_allclose(parts(data)[1][0].numpy(), 255 * x, rtol=1e-6)
    np.testing.assert_allclose(parts(data)[1][1].numpy(), P, rtol=1e-6)
    assert data.test.y.dtype == torch.long and data.test.y.dim() == 1
    shared = deal(path, [True, False, True], take="share", mix=True)
    assert shared.train.size.tolist() == [5 + 5, 4, 6 + 4]
    rows = torch.cat([parts(shared)[0][1][5:], parts(shared)[2][1][6:]])
    np.testing.assert_allclose(rows.numpy(), P[np.r_[0:9:2, 1:9:2]], rtol=1e-6)
    some = deal(path, [True, False, False], share=0.4)
    kept = (parts(some)[0][0] == clean[0][0]).flatten(1).all(1)
    assert int(kept.sum()) == 3 and some.train.size.tolist() == SIZES
    own = parts(some)[0][1][kept]
    assert torch.equal(own.argmax(1), clean[0][1][kept])
    assert own.max(1).values.tolist() == [1] * 3


def test_refuses_a_file_that_turns_soft_while_redrawn(path):
    hard = {"x": np.zeros((9, 2, 3), np.uint8), "y": np.arange(9) % 3}
    for soft in ({"p": P}, {"scale": 1.0, "x": np.ones((9, 2, 3))}):
        np.savez(path, **hard)

        def change(soft=soft):
            np.savez(path, **(hard | soft))
            os.utime(path, ns=(1, 1))

        with pytest.raises(Refusal, match="as fractions in round 2 and did not at"):
            deal(path, [True, False, False], [(2, change)])


TREE = {
    "partition": {"name": "iid", "clients": 4},
    "model": "linear",
    "train": {"rounds": 1, "steps": 1, "batch": 0, "lr": 0.3, "precision": "float64"},
    "adversary": {"clients": [1, 3]},
    "engine": {"how": "loop", "chunk": 1, "device": "cpu"},
}
PLANS = [Plan("loop", 1), Plan("vmap", 3), Plan("threads", 1, 2)]


def digits(path, m=6):
    random = np.random.default_rng(2)
    x, p = random.uniform(-3, 3, (m, 1, 8, 8)), random.dirichlet(np.ones(10), m)
    np.savez(path, x=x, y=p.argmax(1), p=p, scale=1.0)
    return x, p


@pytest.mark.parametrize("batch", [0, 500])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_updates_are_those_of_plain_torch(path, plan, batch):
    """One step of every client: −lr·∇ of the mean cross-entropy with probabilities."""
    x, p = digits(path)
    corruption = {"name": "from_file", "path": path, "take": "all", "mix": True}
    tree = TREE | {"corruption": corruption}
    tree["train"] = TREE["train"] | {"batch": batch}
    clean = build.build(reader.from_dict(TREE | {"corruption": "none"}), plan=plan)
    made = build.build(reader.from_dict(tree), plan=plan)
    w = made.federation.broadcast.w.clone()
    update = made.federation.step().messages.update
    size = clean.data.train.size
    assert made.data.train.size.tolist() == (size + torch.tensor([0, 6, 0, 6])).tolist()
    for k, (bytes_, y) in enumerate(parts(clean.data)):
        inputs = bytes_.double() / 16
        shares = torch.eye(10, dtype=torch.float64)[y]
        if k in (1, 3):
            inputs = torch.cat([inputs, torch.from_numpy(x)])
            shares = torch.cat([shares, torch.from_numpy(p)])
        weight, bias = w[:640].reshape(10, 64).clone(), w[640:].clone()
        head = [t.requires_grad_() for t in (weight, bias)]
        loss = nn.functional.cross_entropy(inputs.flatten(1) @ weight.T + bias, shares)
        g = torch.cat([t.flatten() for t in torch.autograd.grad(loss, head)])
        torch.testing.assert_close(update[k], -0.3 * g, rtol=1e-9, atol=1e-12)


def test_refused_by_models_and_losses_that_take_labels(path, tmp_path, refuses):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "two.npz", x=x, y=np.arange(40) % 2)
    np.savez(path, x=x[:4], y=np.arange(4) % 2, p=np.full((4, 2), 0.5))
    tree = TREE | {"data": {"name": "npz", "path": str(tmp_path / "two.npz")}}
    tree["corruption"] = {"name": "from_file", "path": path}

    def built(loss="auto", **more):
        changed = tree | more | {"train": TREE["train"] | {"loss": loss}}
        return build.build(reader.from_dict(changed), plan=PLANS[0])

    built()
    built("cross_entropy", model="svm").federation.step()  # one output: the margin
    refuses("a loss of its own, which takes labels, and", built, model="svm")
    for name in ("squared", "multi_label", "huber"):
        refuses(f"train.loss = '{name}' needs", built, name)
