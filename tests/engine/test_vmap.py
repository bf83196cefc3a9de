import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from troth import build, seeding
from troth.config import reader
from troth.engine import trace as traces
from troth.engine import vmap as lifted
from troth.engine.local_training import Plan
from troth.engine.trace import update_in_place
from troth.engine.vmap import Lifted, _captured
from troth.networks import flat as trees
from troth.types import Batch

F64 = torch.float64
ATEN = torch.ops.aten
RATE = torch.tensor(0.1, dtype=F64)
SLOW = pytest.mark.slow("trains two federations, traced and captured")


def draw(*shape):
    return torch.randn(shape, dtype=F64)


def equal(a, b, atol=1e-12):
    pairs = zip(trees.leaves(a), trees.leaves(b), strict=True)
    return all(x.shape == y.shape and torch.allclose(x, y, 0, atol) for x, y in pairs)


# Traces


class Both(NamedTuple):
    left: Any
    right: Any


def _loss(v, x):
    a, b = torch.split(v, [6, 2])
    return torch.tanh(torch.tanh(x @ a.reshape(3, 2)) @ b).square().sum()


FUNCTIONS = {  # a function, its axes, and what it is given
    "gradient": (
        lambda v, x: v - 0.1 * grad(_loss)(v, x),
        (0, 0),
        (draw(4, 8), draw(4, 5, 3)),
    ),
    "shared": (lambda w, v: (w * v, w + v), (None, 0), (draw(3), draw(4, 3))),
    "trees": (
        lambda p, q: Both((p.left, q * 2), ((), p.right.sum())),
        (Both(0, 0), 0),
        (Both(draw(4, 2), draw(4, 3)), draw(4)),
    ),
    "untouched": (lambda i, w: w, (0, None), (torch.arange(4), draw(5))),
    "where": (torch.where, (0, 0, 0), (torch.arange(4) != 1, draw(4, 2), draw(4, 2))),
    "bytes": (
        lambda v, x: x.to(v.dtype).mean() * v,
        (0, 0),
        (draw(4, 2), torch.randint(0, 255, (4, 3), dtype=torch.uint8)),
    ),
    "empty": (lambda v, x: (v, x.sum()), (0, 0), (draw(4, 2), draw(4, 0))),
}


def other(t):
    """Other numbers of the same shape, and not contiguous ones."""
    if t.dtype != F64:
        return t.flip(0)
    return draw(*t.shape[::-1]).T if t.dim() == 2 else t + 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_trace_is_plain_vmap(name):
    function, dims, given = FUNCTIONS[name]
    many, plain = Lifted(function, dims, "vmap"), vmap(function, dims)
    for _ in range(3):
        expected, found = plain(*given), many(*given)
        assert type(found) is type(expected)
        assert equal(found, expected) and equal(many.once(*given), expected)
        given = trees.mapped(other, given)


def test_a_shape_is_traced_once_and_a_new_shape_anew():
    calls = []
    many = Lifted(lambda v, x: calls.append(1) or v * x.sum(), (0, 0), "vmap")
    shapes = [((4, 2), (4, 3)), ((5, 2), (5, 3)), ((4, 2), (4, 6)), ((4, 2), (4, 3))]
    for first, second in shapes * 2:
        v, x = draw(*first), draw(*second)
        assert equal(many(v, x), v * x.sum(1, keepdim=True))
    assert len(calls) == 3
    many.once(draw(4, 2), draw(4, 3))
    assert len(calls) == 4


def test_one_tensor_given_twice_is_two_inputs():
    many, x = Lifted(lambda a, b: a * 2 - b, (0, 0), "vmap"), draw(3, 2)
    assert equal(many(x, x), x) and equal(many(x, x + 1), x - 1)


def test_threads_share_traces():
    many = Lifted(lambda v, x: v - 0.1 * grad(_loss)(v, x), (0, 0), "vmap")
    plain = vmap(lambda v, x: v - 0.1 * grad(_loss)(v, x))
    given = [(draw(k % 3 + 2, 8), draw(k % 3 + 2, 5, 3)) for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: many(*pair), given))
    assert all(equal(a, plain(*b)) for a, b in zip(found, given, strict=True))
    assert len(many._traces) == 3


# Memory of its own, with a recorder that needs no GPU


@pytest.fixture
def captured(record):
    def capture(function, *flat, in_place=False):
        graph = make_fx(function)(*flat)
        if in_place:
            update_in_place(graph, in_pieces=True)
        return _captured(graph, list(flat), record)

    return capture


def test_captured_gives_what_the_graph_gives(captured):
    run = captured(lambda a, b: [a + b, a * 2], draw(3), draw(3))
    for _ in range(4):
        a, b = draw(3), draw(3)
        for one, other in ((a, b), (a, b), (b, a)):  # the same objects once more
            assert equal(run(one, other), [one + other, one * 2])
    run = captured(lambda a, b: [a + 1, b], draw(2, 0), draw(2, 3))  # no number
    for b in (draw(2, 3), draw(2, 3)):
        assert equal(run(draw(2, 0), b), [draw(2, 0), b])
    a.is_kept = True  # what is kept is read where it lies
    run = captured(lambda a, b: [a + b], a, b := draw(3))
    for _ in range(3):
        a.copy_(draw(3))  # filled anew, the same tensor
        assert equal(run(a, b), [a + b])


def test_captured_never_writes_over_what_is_kept(record):
    """Given twice: once to be read, and once as the state that a step begins with."""
    w = draw(2, 3)
    w.is_kept = True
    step = lambda w, v, r: [torch.addcmul(v, v - w + 1, -r)]  # noqa: E731
    graph = make_fx(step)(w, w.clone(), RATE)
    update_in_place(graph, in_pieces=True)
    run = _captured(graph, [w, w, RATE], record)
    for _ in range(3):
        w.copy_(draw(2, 3))
        before, v, plain = w.clone(), w, w.clone()
        for _ in range(3):
            (v,) = run(w, v, RATE)
            plain = plain - RATE * (plain - before + 1)
            assert equal([v], [plain]) and torch.equal(w, before)


def _momentum(v, m, x):
    m = 0.9 * m + v * x
    return [torch.addcmul(v, m, -RATE), m]


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    "step",
    [
        _momentum,
        lambda v, m, x: [torch.addcmul(v, v * x, -RATE), m],
        lambda v, last, x: [v + 0.5 * (v - last) * x, v],  # handed on
        lambda a, b, x: [b, a],  # swapped
    ],
)
def test_captured_steps_on_its_own_outputs(step, in_place, captured):
    """Every round from a state that lies elsewhere, and twice from the same one."""
    run = captured(step, draw(2, 3), draw(2, 3), draw(2, 3), in_place=in_place)
    for _ in range(3):
        start, seen = [draw(2, 3), draw(2, 3)], [draw(2, 3) for _ in range(4)]
        before = [t.clone() for t in start]
        for _ in range(2):
            mine = plain = start
            for x in seen:
                mine, plain = run(*mine, x), step(*plain, x)
                assert equal(mine, plain)
            assert equal(start, before, 0)  # what it is given is not changed


def test_few_operations_are_not_captured_and_say_what_they_pass_on(record, monkeypatch):
    monkeypatch.setattr(lifted, "captures", lambda tensor: True)
    monkeypatch.setattr(lifted, "_cuda_graph", record)

    def few(v, w):
        return v, v[:2], w, v - w

    v, w = draw(3, 4), draw(3, 4)
    v.is_reused = True
    passed, part, other, fresh = Lifted(few, (0, 0), "vmap")(v, w)
    assert passed is v and part.data_ptr() == v.data_ptr()
    assert hasattr(part, "is_reused")  # a view of what is written over
    assert not hasattr(other, "is_reused") and not hasattr(fresh, "is_reused")
    again = Lifted(few, (0, 0), "vmap", in_place=True)(v, w)  # steps are, always
    assert all(hasattr(leaf, "is_reused") for leaf in again)
    assert all(leaf.data_ptr() != v.data_ptr() for leaf in again)


def _trained(experiment, plan):
    federation = build.build(experiment, plan=plan).federation
    for _ in federation.train():
        pass
    return federation.broadcast.w, federation.population.read(np.arange(7))


@pytest.mark.parametrize(
    ("personalizer", "optimizer", "in_pieces"),
    [
        ("ditto", "sgd", True),
        ("ditto", "sgd", False),
        ({"name": "ditto", "lam": 0.5}, "adam", True),
        pytest.param("local", "momentum", True, marks=SLOW),
        pytest.param({"name": "ditto", "steps": 3}, "sgd", True, marks=SLOW),
        pytest.param("pfedme", "sgd", True, marks=SLOW),
        pytest.param("pfedme", "sgd", False, marks=SLOW),
        pytest.param("apfl", "sgd", True, marks=SLOW),
        pytest.param("mapper", "sgd", True, marks=SLOW),
        pytest.param("mixture", "sgd", True, marks=SLOW),
    ],
)
def test_rounds_of_captured_chunks_are_the_loop(
    personalizer, optimizer, in_pieces, tree, monkeypatch, record
):
    """What runs on a GPU, but for the GPU: two chunks, several rounds, in place."""
    tree["train"] |= {"cohort": 4, "epochs": 2, "lr": 0.1, "optimizer": optimizer}
    tree |= {"model": {"name": "mlp", "widths": [3]}, "personalizer": personalizer}
    experiment = reader.from_dict(tree)
    expected = _trained(experiment, Plan("loop", 1))
    plain, changed = Lifted._trace, []

    def update(graph, **given):
        before = str(graph.graph)
        update_in_place(graph, in_pieces)
        changed.append(str(graph.graph) != before)

    def trace(self, arguments, flat):
        graph, example = plain(self, arguments, flat)
        return _captured(graph, flat, record), example

    monkeypatch.setattr(traces, "update_in_place", update)
    monkeypatch.setattr(Lifted, "_trace", trace)
    assert equal(_trained(experiment, Plan("vmap", 3)), expected)
    chosen = isinstance(personalizer, dict)  # budgets that differ choose, adam divides
    assert any(changed) == (not chosen)


# Updates in place


def _stepped(v, x, rate):
    return torch.addcmul(v, grad(_loss)(v, x), -rate)


def in_place(function, in_pieces, *given):
    """The graph of a step, updated in place, and the operations in it."""
    graph = make_fx(function)(*given)
    update_in_place(graph, in_pieces)
    return graph, [node.target for node in graph.graph.nodes]


def _pulled(v, w, x, rate):
    pull = v - w
    return torch.addcmul(v, grad(_loss)(v, x).add(pull, alpha=0.7), -rate)


def _early(v, w, x, rate):
    """The pull is taken before w moves, and used after."""
    pull = v - w
    moved = _stepped(w, x, rate)
    g = grad(_loss)(v, x).add(pull, alpha=0.7)
    return [moved, torch.addcmul(v, g, -rate)]


def _used_twice(v, w, x, rate):
    pull = v - w
    return [torch.addcmul(v, grad(_loss)(v, x).add(pull), -rate), pull]


def _twice(v, w, x, rate):
    """Two pulled steps, and w follows: pFedMe's."""
    near = _pulled(_pulled(v, w, x, rate), w, x, rate)
    return [torch.addcmul(w, (w - near) * 0.3, -rate), near]


def _between(v, w, x, rate):
    """Two models move along one gradient between them: mapper's."""
    lam = x.mean().sigmoid()
    g = grad(_loss)(torch.lerp(w, v, lam), x)
    return [torch.addcmul(v, lam * g, -rate), torch.addcmul(w, (1 - lam) * g, -rate)]


def _middle(v, w, x, rate):
    half = _stepped(v, x, rate)
    return [_stepped(half, x, rate), half + w]


def _fork(v, w, x, rate):
    half = _stepped(v, x, rate)
    return [_stepped(half, x, rate), _pulled(half, w, x, rate)]


def _one_number(v, w, x, rate):
    """Of models of one number a factor of each client is as wide as a model."""

    def loss(v, x):
        return (x.sum() * v).tanh().square().sum()

    g = v * grad(loss)(v, x)
    moved = torch.addcmul(w, w * g, -rate)
    return [moved, torch.addcmul(v, (g * w).add(v - moved, alpha=0.5), -rate)]


def _later_view(v, w, x, rate):
    part = v[:3]
    return [_stepped(v, x, rate), part + 1]


def _by(v, g, rate):
    return torch.addcmul(v, g, -rate)


def _weighed(v, w, x, rate):
    g = (0.3 * grad(_loss)(v, x)).add(v - w, alpha=1.4)
    return [w * 1, _by(v, g, rate)]


def _moving(made):
    """A gradient that is made before w moves, and used after."""

    def step(v, w, x, rate):
        g = made(v, w, x)
        return [_stepped(w, x, rate), _by(v, g, rate)]

    return step


# Steps of (v, w, x, rate), and what is to be seen of them besides the right numbers.
PULLED = {  # whether a pull towards w is made in one pass, in pieces
    "fixed": (lambda v, w, x, r: [w * 1, _pulled(v, w, x, r)], True),
    "moving": (lambda v, w, x, r: [m := _stepped(w, x, r), _pulled(v, m, x, r)], True),
    "before": (lambda v, w, x, r: [_stepped(w, x, r), _pulled(v, w, x, r)], True),
    "early": (_early, False),
    "both ways": (lambda v, w, x, r: [_pulled(w, v, x, r), _pulled(v, w, x, r)], False),
    "itself": (lambda v, w, x, r: [_pulled(v, v, x, r), w + x.sum()], False),
    "used twice": (_used_twice, False),
}
APART = {  # how many updates stay out of place
    "alone": (lambda v, w, x, r: [_stepped(v, x, r)], 0),
    "beside": (lambda v, w, x, r: [_stepped(v, x, r), x * 2], 0),
    "read before": (lambda v, w, x, r: [v.sum() + 0 * x.sum(), _stepped(v, x, r)], 0),
    "whole": (lambda v, w, x, r: [torch.addcmul(v, v.flip(0), -r)], 0),
    "two steps": (_twice, 0),
    "between": (_between, 0),
    "weighed": (_weighed, 0),
    "pieces that move": (_moving(lambda v, w, x: torch.cat([w[4:], w[:4]])), 0),
    "a gradient that moves": (_moving(lambda v, w, x: 2 * w), 0),
    "a rest that moves": (_moving(lambda v, w, x: w.add(v - x.mean(), alpha=0.7)), 0),
    "a share of itself": (
        lambda v, w, x, r: [_by(v, (0.5 * v).add(v - w, alpha=0.7), r), w + 1],
        0,
    ),
    "the middle is used": (_middle, 2),
    "a fork": (_fork, 1),
}
CAREFUL = {  # right only if left alone, or done with care
    "one number": _one_number,
    "used later": lambda v, w, x, r: [_stepped(v, x, r), v * 2],
    "given back too": lambda v, w, x, r: [_stepped(v, x, r), v],
    "given twice": lambda v, w, x, r: [s := _stepped(v, x, r), s],
    "no input": lambda v, w, x, r: [_stepped(v * 2, x, r)],
    "used by a later update": lambda v, w, x, r: [
        _stepped(v, x, r),
        torch.addcmul(x, v.sum().expand(5, 3), r),
    ],
    "no output": lambda v, w, x, r: [_stepped(v, x, r) * 2],
    "a view used later": _later_view,
    "made of itself": lambda v, w, x, r: [_by(v, torch.cat([v[4:], v[:4]]), r)],
    "another value": lambda v, w, x, r: [
        torch.addcmul(v, grad(_loss)(v, x), r, value=-0.5)
    ],
    "a rate each": lambda v, w, x, r: [
        _by(v, grad(_loss)(v, x), r * x.mean(0).repeat(3)[:8])
    ],
    "rate first": lambda v, w, x, r: [torch.addcmul(v, -r, grad(_loss)(v, x))],
}
STEPS = [(name, step, None, pulled) for name, (step, pulled) in PULLED.items()]
STEPS += [(name, step, apart, None) for name, (step, apart) in APART.items()]
STEPS += [(name, step, None, None) for name, step in CAREFUL.items()]


@pytest.mark.parametrize("in_pieces", [True, False])
@pytest.mark.parametrize(
    ("name", "step", "apart", "pulled"), STEPS, ids=[row[0] for row in STEPS]
)
def test_a_step_in_place_is_the_plain_graph(name, step, apart, pulled, in_pieces):
    step, wide = vmap(step, (0, 0, 0, None)), 1 if name == "one number" else 8
    given = draw(4, wide), draw(4, wide), draw(4, 5, 3), RATE
    graph, targets = in_place(step, in_pieces, *given)
    assert apart in (None, targets.count(ATEN.addcmul.default))
    if pulled or (pulled is False and not in_pieces):
        assert (ATEN.lerp_.Tensor in targets) == (pulled and in_pieces)
    gathers = ATEN.cat.default in targets
    if name in ("two steps", "between", "weighed") and in_pieces:
        assert not gathers
    if name in ("alone", "beside", "read before", "whole"):
        assert gathers == (name != "whole" and not in_pieces)
    for _ in range(2):
        v, w, x = draw(4, wide), draw(4, wide), draw(4, 5, 3)
        expected, own = step(v, w, x, RATE), (v.clone(), w.clone())
        found = graph(*own, x, RATE)
        assert equal(found, expected)
        places = {t.data_ptr() for t in own}
        assert apart != 0 or places & {t.data_ptr() for t in found}


def test_what_all_clients_share_is_never_written_over():
    step = vmap(
        lambda w, v, x, rate: [_by(w, grad(_loss)(v, x), rate)], (None, 0, 0, None)
    )
    given = draw(8), draw(4, 8), draw(4, 5, 3), RATE
    for in_pieces in (True, False):
        graph, _ = in_place(step, in_pieces, *given)
        kept = given[0].clone()
        for _ in range(2):
            assert equal(graph(*given), step(*given))
            assert torch.equal(given[0], kept)


# Draws through a compiler


@pytest.mark.slow("a compiler builds kernels")
@pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "g++")), reason="needs a C++ compiler"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in itself
def test_a_compiler_draws_the_same_numbers():
    """It takes a range for an index, and would not wrap what is made of one."""

    def drawn(key):
        each = seeding.fold(key, torch.arange(5))  # as augments do
        return seeding.bits(each, 3), seeding.uniform(key, 40)  # as dropout does

    key = seeding.keys(0, "test", 0, torch.arange(4))
    found = Lifted(drawn, (0,), "compiled")(key)
    for k in range(4):
        for one, expected in zip(found, drawn(key[k]), strict=True):
            assert torch.equal(one[k], expected)


# All steps of a phase together


@pytest.mark.parametrize("model", [{"name": "mlp", "widths": [3]}, "cnn"])
@pytest.mark.parametrize(
    ("personalizer", "optimizer"),
    [
        ("none", "sgd"),
        ("ditto", "sgd"),
        ("none", "adam"),
        pytest.param({"name": "ditto", "lam": "auto"}, "sgd", marks=SLOW),
        pytest.param("pfedme", "sgd", marks=SLOW),
        pytest.param("mapper", "momentum", marks=SLOW),
        pytest.param("apfl", "sgd", marks=SLOW),
    ],
)
def test_all_steps_together_are_the_loop(
    personalizer, optimizer, model, tree, monkeypatch, record, tmp_path
):
    """What runs on a GPU, but for the GPU: two chunks, several rounds."""
    tree["train"] |= {"cohort": 4, "steps": 3, "lr": 0.1, "optimizer": optimizer}
    if model == "cnn":
        owner = np.arange(63) % 7
        x = np.random.default_rng(0).random((63, 1, 8, 9))
        y = np.arange(63) % 2
        np.savez(tmp_path / "data.npz", x=x, y=y, owner=owner)
        model = {"name": "cnn", "channels": [2, 3], "widths": [4]}
    tree |= {"model": model, "personalizer": personalizer}
    experiment = reader.from_dict(tree)
    expected = _trained(experiment, Plan("loop", 1))
    monkeypatch.setattr(lifted, "captures", lambda tensor: True)
    monkeypatch.setattr(lifted, "_cuda_graph", record)
    plain, calls = lifted.Whole.__call__, []

    def counted(self, *given):
        calls.append(len(given[3].t))
        return plain(self, *given)

    monkeypatch.setattr(lifted.Whole, "__call__", counted)
    assert equal(_trained(experiment, Plan("vmap", 3)), expected)
    assert calls == [3] * 6


def test_only_a_few_numbers_of_steps_are_captured_as_one(tree, monkeypatch, record):
    """Clients one by one, of unequal size: each has its own number of steps."""
    tree["train"] |= {"epochs": 2, "rounds": 2, "batch": 2}
    experiment = reader.from_dict(tree)
    expected = _trained(experiment, Plan("loop", 1))
    monkeypatch.setattr(lifted, "captures", lambda tensor: True)
    monkeypatch.setattr(lifted, "_cuda_graph", record)
    plain, steps = lifted.Whole._capture, []

    def capture(self, given, flat):
        steps.append(len(given[3].t))
        return plain(self, given, flat)

    monkeypatch.setattr(lifted.Whole, "_capture", capture)
    assert equal(_trained(experiment, Plan("vmap", 1)), expected)
    sizes = build.build(experiment, plan=Plan("loop", 1)).federation.engine.feed.sizes
    assert len({*sizes.tolist()}) > len(steps) == len({*steps}) == 3


def test_an_operation_that_needs_a_copy_for_each_client_gets_it(record, monkeypatch):
    monkeypatch.setattr(lifted, "captures", lambda tensor: True)
    w = draw(6)

    def begin(i, w, state):
        return (w,)

    def step(w, carry, batch, valid):
        flat = carry[0].view(2, 3)
        return (torch.addcmul(carry[0], flat.flatten() * batch.x.sum(), -RATE),)

    parts = (
        Lifted(begin, (0, None, 0), "vmap"),
        Lifted(
            step, (None, 0, Batch(0, 0, 0, None, 0, 0, 0), None), "vmap", in_place=True
        ),
    )
    whole = lifted.Whole(*parts, record)
    first = parts[1].graphs
    failed = []

    def graphs(*given):
        found = first(*given)

        def strict(*tensors):
            if tensors[1].stride(0) == 0:
                failed.append(True)
                raise RuntimeError("view size is not compatible")
            return found.first(*tensors)

        return found._replace(first=strict)

    none, each = torch.zeros(2, 3, 0), torch.ones(3)
    batches = Batch(draw(2, 3, 4), none, none, torch.arange(2), each, each, none)
    index = torch.arange(3)
    plain = whole(index, w, (), batches, ())[0].clone()
    monkeypatch.setattr(parts[1], "graphs", graphs)
    again = lifted.Whole(*parts, record)(index, w, (), batches, ())[0]
    assert failed and torch.equal(again, plain)
    expected = w.expand(3, -1)
    for k in range(2):
        moved = expected * batches.x[k].sum(1, keepdim=True)
        expected = expected - RATE * moved
    assert equal([plain], [expected])
