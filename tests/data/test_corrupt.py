"""What malicious clients do to their data: whose it may be, how much, how often."""

import sys
import types

import numpy as np
import pytest
import torch

from troth import build, files, seeding
from troth.config import reader
from troth.config.schema import CorruptionPart
from troth.data import corrupt as corrupting
from troth.data.corrupt import Corruption, poison
from troth.engine.local_training import Plan
from troth.runs import results
from troth.types import Arrays

M = 40
X = torch.arange(M * 3, dtype=torch.float32).reshape(M, 3)
Y = torch.arange(M) % 4
ARRAYS = Arrays(X.numpy(), Y.numpy(), 4)


def marked(x, y, key):
    return -x - 1, torch.full_like(y, 3)


def relabelled(x, y, key):
    return x, (y + 1) % 4


def made(corrupt=marked, x=X, y=Y, **more):
    when = {"seed": 0, "round_": 0, "client": 0}
    how = Corruption(corrupt, 4, **{k: more.pop(k) for k in [*more] if k not in when})
    return poison(how, x, y, **when | more)


def test_how_many_are_chosen():
    for share, m, count in (
        (1.0, 40, 40),
        (0.5, 40, 20),
        (0.5, 7, 4),  # rounded up
        (0.1, 40, 4),  # 0.1·40 is a little above 4, which does not count
        (0.3, 10, 3),
        (1e-12, 40, 1),
        (1.0, 1, 1),
        (0.5, 0, 0),
    ):
        found = made(x=X[:m], y=Y[:m], share=share)
        assert len(found.chosen) == len({*found.chosen.tolist()}) == count
        assert found.chosen.tolist() == sorted(found.chosen.tolist())
        assert torch.equal(found.x, -X[found.chosen] - 1)
        assert bool((found.y == 3).all())


def test_seed_round_and_client_decide_who_is_chosen_and_what_is_drawn():
    seen = []

    def look(x, y, key):
        seen.append((int(key), tuple(y.tolist()), tuple(x[:, 0].tolist())))
        return x, y

    for when in [{}, {"seed": 1}, {"round_": 1}, {"client": 1}]:
        for _ in range(2):
            made(look, share=0.5, **when)
    assert seen[::2] == seen[1::2]
    keys, _, rows = zip(*seen[::2], strict=True)
    assert len({*keys}) == len({*rows}) == 4
    assert keys[0] == int(seeding.keys(0, "corruption", 0, torch.tensor(0)))


def test_which_inputs_need_rows():
    assert made(relabelled).x is None
    holes = torch.where(X % 5 == 0, torch.nan, X)
    assert made(relabelled, x=holes).x is None  # NaN is as missing as NaN

    def scribble(x, y, key):
        return x.add_(1), y

    before = X.clone()
    assert torch.equal(made(scribble).x, X + 1) and torch.equal(X, before)
    found, some = made(share=0.25, redraw=True), made(share=0.25).chosen
    assert found.chosen.tolist() == list(range(M)) and len(some) == 10
    rest = np.setdiff1d(np.arange(M), some)
    assert torch.equal(found.x[rest], X[rest]) and torch.equal(found.y[rest], Y[rest])
    assert torch.equal(found.x[some], -X[some] - 1) and bool((found.y[some] == 3).all())


BAD = [
    (lambda x, y: (x[:, :2], y), r"inputs \[40, 2\] and labels \[40\] for 40"),
    (lambda x, y: (x, y[1:]), r"labels \[39\] for 40 examples of shape \[3\]"),
    (lambda x, y: (x, y[:, None]), r"labels \[40, 1\]"),
    (lambda x, y: (x, y + 1), "labels from 1 to 4; they must be whole .* 0 … 3"),
    (lambda x, y: (x, y + 0.5), "must be whole numbers"),
    (lambda x, y: (x, torch.full((40, 3), 1 / 3)), r"labels \[40, 3\] for 40"),
    (lambda x, y: (x, torch.ones(40, 4)), "soft labels whose row 0 adds up to 4"),
    (lambda x, y: (x, -torch.ones(40, 4) / 4), "row 0 holds a share that is neg"),
]


def few(x, y, key):
    return x[:5], y[:5]


def test_refuses_what_nobody_could_train_on(refuses):
    for corrupt, words in BAD:
        words = f"corruption 'corrupt' returns .*{words}"
        refuses(words, made, lambda x, y, key, corrupt=corrupt: corrupt(x, y))
    assert len(made(few).y) == 5
    refuses(r"returns 5 examples for 40, .*redraw = false", made, few, redraw=True)


def test_labels_may_be_soft():
    p = torch.rand(M, 4).softmax(1).double()

    def soft(x, y, key):
        return x, p[: len(y)]

    found = made(soft)
    assert torch.equal(found.y, p) and found.x is None
    some = made(soft, share=0.25)
    assert torch.equal(some.y, p[:10]) and len(some.chosen) == 10
    every = made(lambda x, y, key: (-x, p[: len(y)]), share=0.25, redraw=True).y
    assert torch.equal(every[some.chosen], p[:10])
    rest = np.setdiff1d(np.arange(M), some.chosen)
    assert torch.equal(every[rest].argmax(1), Y[rest])


PART = CorruptionPart("strange:bend")
BEND = "def bend(x, y, *, by: int = 1): return x, (y + by) % 4\n"


@pytest.fixture
def write(monkeypatch):
    """Write functions of a package of somebody else's."""
    made = types.ModuleType("strange")
    monkeypatch.setitem(sys.modules, "strange", made)

    def written(text):
        exec(text, made.__dict__)
        return made

    return written


def test_a_corruption_gives_a_pair_and_may_ask_for_the_scale(write, refuses):
    write("def bend(x, y, classes, key, scale): return x * scale, y")
    how = corrupting.corruption(PART, ARRAYS._replace(scale=16.0))
    assert torch.equal(how.corrupt(X, Y, torch.tensor(1))[0], X * 16)
    for what in ("None", "y", "(x, y, y)", "[x, y]", "(x, 3)"):
        write(f"def bend(x, y): return {what}")
        how = corrupting.corruption(PART, ARRAYS)
        words = r"'strange:bend' returns a \w+; .* two tens"
        refuses(words, how.corrupt, X, Y, torch.tensor(1))


def test_what_it_is_after(write):
    strange = write(BEND)
    assert corrupting.corruption(CorruptionPart("none"), ARRAYS) is None
    strange.aim = strange  # some package of that name
    for part in (CorruptionPart("none"), CorruptionPart("flip_labels"), PART):
        assert corrupting.aim(part, ARRAYS) is None
    write("def aim(x, y, classes, *, by): return x + by, (y + by) % classes")
    aim = corrupting.aim(CorruptionPart("strange:bend", {"by": 2}), ARRAYS)
    shown, wanted = aim(X, Y)
    assert torch.equal(shown, X + 2) and torch.equal(wanted, (Y + 2) % 4)


def test_refuses_an_aim_that_does_not_fit(write, refuses):
    for text, words in (
        ("x, y): return x, y + 1", r"one label each, −1 … 3"),
        ("x, y): return x[:, 1:], y", r"examples of shape \[3\]; it must return"),
        ("x, y): return x, y[:1]", "does not fit 2 examples"),
        ("x, y): return x", "returns a Tensor; it must return two tensors"),
        ("x, y, *, to): return x, y", "needs 'to', which is no option .*: by$"),
        ("x, y, weight): return x, y", "asks for 'weight', which is not available"),
    ):
        write(f"{BEND}def aim({text}")
        arrays = ARRAYS._replace(y=np.full(M, 3))
        refuses(
            words, corrupting.aim, CorruptionPart("strange:bend", {"by": 1}), arrays
        )


TREE = {
    "partition": {"name": "iid", "clients": 8},
    "train": {"rounds": 4, "cohort": 5, "epochs": 1, "batch": 32, "lr": 0.2},
    "personalizer": {"name": "ditto", "lam": 0.5},
    "adversary": {"count": 3},
    "checkpoint": {"every": 2},
    "engine": {"how": "vmap", "chunk": 3, "device": "cpu"},
}
REDRAWN = [
    {"name": "random_labels", "redraw": True},
    {"name": "backdoor", "share": 0.4, "redraw": True},
    {"name": "noise_features", "share": 0.5, "redraw": True},
]
every = pytest.mark.parametrize("corruption", REDRAWN, ids=lambda c: c["name"])
slow = pytest.mark.slow("trains with every corruption")
mostly_slow = pytest.mark.parametrize(
    "corruption", [REDRAWN[0], *(pytest.param(c, marks=slow) for c in REDRAWN[1:])]
)


@mostly_slow
def test_resume_goes_on_bit_for_bit(corruption, resumed):
    resumed(TREE | {"corruption": corruption}, 3, files.EXPERIMENT)


def built(plan=Plan("loop", 1), **changes):  # noqa: B008
    return build.build(reader.from_dict(TREE | changes), plan=plan)


def trained(made):
    for _ in made.federation.train():
        pass
    return made.federation.broadcast.w


@mostly_slow
def test_however_clients_step_they_see_the_same(corruption):
    expected, *ends = (
        trained(built(plan, corruption=corruption))
        for plan in (Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2))
    )
    for end in ends:
        torch.testing.assert_close(end, expected, rtol=1e-4, atol=1e-5)


@every
def test_redrawn_in_every_round_and_nobody_else_is_touched(corruption):
    made, clean = built(corruption=corruption), built(corruption="none").data
    data, everyone, seen = made.data, np.arange(8), []
    good = torch.from_numpy(~made.hostile[np.repeat(everyone, data.train.size.numpy())])
    for r in (0, 1, 0, 7):
        made.federation.redraw(r, everyone)
        x, y = data.x[data.train.row], data.train.y
        seen.append((x.clone(), y.clone()))
        assert torch.equal(x[good], clean.x[clean.train.row][good])
        assert torch.equal(y[good], clean.train.y[good])
        for one, two in ((data.valid, clean.valid), (data.test, clean.test)):
            assert torch.equal(data.x[one.row], clean.x[two.row])
            assert torch.equal(one.y, two.y)
    first, second, again, last = seen
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    fixed = built(corruption=corruption | {"redraw": False}).data
    assert torch.equal(first[0], fixed.x[fixed.train.row])  # round 0 is the fixed one
    assert torch.equal(first[1], fixed.train.y)
    for other in (second, last):
        assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_only_who_takes_part_corrupts_anew_and_only_if_asked():
    made = built(corruption=REDRAWN[0])
    redraw, train = made.federation.redraw, made.data.train
    one, *others = np.flatnonzero(made.hostile)
    before = torch.split(train.y.clone(), train.size.tolist())
    redraw(3, np.array([one]))
    after = torch.split(train.y, train.size.tolist())
    assert not torch.equal(before[one], after[one])
    assert all(torch.equal(before[k], after[k]) for k in others)
    made = built(corruption={"name": "random_labels"})
    assert made.federation.redraw is None
    before = made.data.train.y.clone()
    trained(made)
    assert torch.equal(made.data.train.y, before)


def test_inputs_that_change_late_are_refused(write, refuses):
    """In place and not at first: there is no room for what would be another's too."""
    strange = write(
        "def bend(x, y):\n"
        "    calls.append(1)\n"
        "    return (x.add_(1) if len(calls) > 3 else x), y\n"
    )
    strange.calls = []
    made = built(corruption={"name": "strange:bend", "redraw": True})
    words = "changes inputs in round 4 and did not at first"
    refuses(words, made.federation.redraw, 4, np.arange(8))


def test_the_last_phase_has_data_of_its_own():
    """All clients tune on what is drawn for the round after the last."""
    tune = {"name": "finetune", "steps": 3}
    ends, train = [], TREE["train"] | {"rounds": 2}
    for meanwhile in (0, 99):
        made = built(corruption=REDRAWN[0], personalizer=tune, train=train)
        f, everyone = made.federation, np.arange(8)
        trained(made)
        f.redraw(meanwhile, everyone)
        assert list(f.finish(3)) == [3, 3, 2]
        ends.append((f.population.read(everyone), made.data.train.y.clone()))
        f.redraw(2, everyone)
        assert torch.equal(made.data.train.y, ends[-1][1])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every
def test_on_another_device_the_draws_are_the_same(corruption):
    found = []
    for device in ("cpu", "cuda"):
        made = built(corruption=corruption, engine={"device": device})
        made.federation.redraw(3, np.arange(8))
        train, tables = made.data.train, results.evaluate(made)
        found.append((made.data.x[train.row].cpu(), train.y.cpu(), tables["shared"]))
    (x, y, table), (other_x, other_y, other) = found
    assert torch.equal(x, other_x) and torch.equal(y, other_y)
    assert ("attack_success" in table) == (corruption["name"] == "backdoor")
    for name, values in table.items():
        np.testing.assert_allclose(values, other[name], rtol=0.05, atol=0.05)
