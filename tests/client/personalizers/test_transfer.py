"""Fine-tuning that adversarial examples of the shared model still transfer to."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import troth
from troth.client.adversarial.pgd import pgd
from troth.client.personalizers._agreement import disagreement
from troth.client.personalizers.transfer import transfer
from troth.networks import task as tasks
from troth.types import Batch, Budget, Refusal

from ..hand import F64, by, drawn, number, sent
from ..small import LOOP, THREADS, TRACED, VMAP, done, draws, rows
from ..small import built as ready_at

SIZES = [30, 2, 22, 40, 12]  # examples of each client
N, STEPS, LR = len(SIZES), 9, 0.4
EPS, ITERATIONS = 0.15, 3


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Four numbers from 0 to 1 in three classes; a client's labels are its own."""
    random = np.random.default_rng(3)
    owner = np.repeat(np.arange(N), SIZES)
    y = random.integers(0, 3, len(owner))
    x = (
        0.5
        + 0.15 * np.eye(4)[(y + owner // 2) % 4]
        + random.normal(0, 0.1, (len(y), 4))
    )
    file = tmp_path_factory.mktemp("data") / "all.npz"
    np.savez(file, x=x.clip(0, 1), y=y, owner=owner)
    return file


def tree(path, personalizer, **sections):
    train = {"rounds": 3, "cohort": 4, "steps": 2, "batch": 8, "lr": LR}
    own = {"steps": STEPS} | ({} if isinstance(personalizer, str) else personalizer)
    if isinstance(personalizer, str):
        own["name"] = personalizer
    return {
        "seed": 2,
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": [0.6, 0.25, 0.15]},
        "model": {"name": "mlp", "widths": [5]},
        "personalizer": {"name": "transfer"} | own,
        "adversarial": {"eps": EPS, "iterations": ITERATIONS},
        "engine": {"device": "cpu"},
        "train": train | {"precision": "float64"} | sections.pop("train", {}),
        **sections,
    }


def built(path, own, plan=THREADS, **more):
    return ready_at(tree(path, own, **more), plan)


def made(path, own, plan=THREADS, **more):
    """All clients' models at the end, [n, d]."""
    return done(built(path, own, plan, **more))


def batch(m=6):
    x = torch.rand(m, 4, generator=torch.Generator().manual_seed(1), dtype=F64)
    weight = torch.full((m,), 1 / m, dtype=F64)
    return Batch(x, torch.arange(m) % 3, weight, torch.tensor(0), torch.tensor(1))


def phase(task, **options):
    attack = pgd(task, 1.0, eps=EPS, iterations=ITERATIONS)
    sgd = by(LR, tail=task.tail)
    return transfer(task, sgd, Budget(steps=1), attack, **options).finish


def of_classes(outputs, of_w):
    """Eq. 2 as it is printed, with a minus: a value an example."""
    z, p = of_w.softmax(1), outputs.softmax(1)
    return -(z * p.log() + (1 - z) * (1 - p).log()).sum(1)


def test_disagreement_by_hand():
    """z = (3/4, 1/4), p = (1/2, 1/2): each class costs ln 2."""
    of_w, one = number(3.0, 1.0).log()[None], batch(1)
    found = disagreement(of_w, one)(torch.zeros(1, 2, dtype=F64))
    assert found.item() == pytest.approx(2 * np.log(2))
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert disagreement(of_w, one)(of_w).item() == pytest.approx(2 * entropy)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_disagreement_is_equation_2(classes):
    """And it is least where both agree."""
    outputs, of_w = 3 * drawn(2, 6, classes, seed=classes)
    seen = batch()._replace(weight=torch.arange(6).double() / 15)
    expected = (of_classes(outputs, of_w) * seen.weight).sum()
    between = disagreement(of_w, seen)
    torch.testing.assert_close(between(outputs), expected, rtol=1e-12, atol=0)
    assert torch.func.grad(between)(of_w).abs().max() < 1e-15
    for shift in torch.eye(classes, dtype=F64):
        assert between(of_w + 0.3 * shift) > between(of_w)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_models_that_are_sure_do_no_harm(dtype):
    """Where p rounds to 1, log(1 − p) is still known."""
    sure = torch.tensor([[300.0, 0.0, -300.0]], dtype=dtype)
    between = disagreement(sure.flip(1), batch(1)._replace(weight=sure[0, :1] / 300))
    # Of the three classes: z = (0, 0, 1), log p_3 = −600, log(1 − p_1) = −300.
    assert between(sure).item() == pytest.approx(900)
    # −log p_3 = 600 grows with f_1 − f_3, −log(1 − p_1) = 300 with f_1 − f_2.
    assert torch.func.grad(between)(sure).tolist()[0] == pytest.approx([2.0, -1, -1])


def test_margins_and_several_labels_have_a_probability_each():
    margin = torch.linspace(-4, 4, 6, dtype=F64)[:, None]
    seen = batch()._replace(y=torch.arange(6) % 2)
    two = [torch.cat([0 * m, m], 1) for m in (margin, margin.flip(0))]
    found = disagreement(margin, seen)(margin.flip(0))
    torch.testing.assert_close(found, disagreement(two[0], seen)(two[1]))
    outputs, of_w = drawn(2, 6, 3)
    seen = batch()._replace(y=torch.ones(6, 3).long())
    given = outputs, of_w.sigmoid()
    each = binary_cross_entropy_with_logits(*given, reduction="none").sum(1)
    torch.testing.assert_close(disagreement(of_w, seen)(outputs), each.mean())


class Plain:
    """A federation's clients, its last shared model and their data, in plain torch."""

    def __init__(self, ready):
        self.ready, self.net = ready, ready.network
        self.w = ready.federation.broadcast.w.clone()

    def outputs(self, v, x):
        named = tasks.unflatten(tasks.layout(self.net), v)
        return torch.func.functional_call(self.net, named, (x,))

    def split(self, name, k):
        """Slots, inputs and labels."""
        split = getattr(self.ready.data, name)
        slots = rows(split, k)
        return slots, self.ready.data.x[split.row[slots]], split.y[slots]

    def attacked(self, x, y):
        """The best iterate of sign-PGD on the shared model."""
        at, best, highest = x.clone(), x.clone(), torch.full((len(x),), -torch.inf)
        for _ in range(ITERATIONS + 1):
            at.requires_grad_()
            loss = cross_entropy(self.outputs(self.w, at), y, reduction="none")
            (g,) = torch.autograd.grad(loss.sum(), at)
            at = at.detach()
            higher = loss.detach() > highest
            best = torch.where(higher[:, None], at, best)
            highest = torch.where(higher, loss.detach(), highest)
            at = (at + EPS / 4 * g.sign()).clamp(x - EPS, x + EPS).clamp(0, 1)
        return best

    def way(self, k, w1, w2, steps=STEPS):
        """w* and all models after it; adversarial examples are made once, before."""
        first, x, y = self.split("train", k)
        bad = self.attacked(x, y)
        v, found = self.w.clone(), [self.w]
        for held in draws(self.ready, k, self.ready.experiment.train.rounds, steps):
            at = held - first[0]
            v = v.detach().requires_grad_()
            loss = cross_entropy(self.outputs(v, x[at]), y[at])
            of_w = self.outputs(self.w, bad[at])
            loss = loss + w1 * of_classes(self.outputs(v, bad[at]), of_w).mean()
            loss = loss + w2 * (v - self.w).square().sum()
            (g,) = torch.autograd.grad(loss, v)
            v = (v - LR * g).detach()
            found.append(v)
        return found

    def accuracy(self, v, x, y):
        return float((self.outputs(v, x).argmax(1) == y).double().mean())

    def score(self, k, v, keep):
        """Validation accuracy, minus the decrease of transferability."""
        _, x, y = self.split("valid", k)
        if keep == "accurate":
            return self.accuracy(v, x, y)
        bad = self.attacked(x, y)
        of_w, of_v = (1 - self.accuracy(u, bad, y) for u in (self.w, v))
        return self.accuracy(v, x, y) - (of_w - of_v)


@pytest.mark.parametrize(
    ("plan", "w1", "w2"),
    [
        (LOOP, 0.7, 0.2),
        (THREADS, 0.7, 0.2),
        (THREADS, 0.7, 0.0),
        pytest.param(VMAP, 0.7, 0.2, marks=TRACED),
    ],
)
def test_is_what_plain_autograd_finds(path, plan, w1, w2):
    """And examples made all at once, before an epoch, are those made step by step."""
    ready = built(path, {"w1": w1, "w2": w2, "keep": "last"}, plan)
    found = done(ready)
    plain = Plain(ready)
    per_epoch = ready.federation.engine.feed.per_epoch
    assert (2 * per_epoch < STEPS).any()
    for k in range(N):
        expected = plain.way(k, w1, w2)[-1]
        assert torch.allclose(found[k], expected, 0, 1e-9), k
    assert (found - plain.w).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize(
    ("keep", "plan"),
    [
        ("transferable", LOOP),
        pytest.param("transferable", VMAP, marks=TRACED),
        ("transferable", THREADS),
        ("accurate", THREADS),
    ],
)
def test_the_stopping_point(path, keep, plan):
    """By hand: the first of the best of all on the way; without validation the last."""
    own = {"w1": 0.05, "w2": 0.0, "keep": keep, "lr": LR}
    ready = built(path, own, plan)
    found, sizes, places = done(ready), ready.data.valid.size.tolist(), set()
    plain = Plain(ready)
    for k, size in enumerate(sizes):
        models = plain.way(k, 0.05, 0.0)
        scores = [round(plain.score(k, v, keep), 9) for v in models] if size else [0.0]
        at = int(np.argmax(scores)) if size else STEPS
        assert torch.allclose(found[k], models[at], 0, 1e-9), (k, at, scores)
        places.add(at)
    assert len(places) > 2 and 0 in sizes


def test_the_two_rules_differ_as_they_should(path):
    """One stops where adversarial examples still transfer, the other does not care."""
    left = {}
    for keep in ("transferable", "accurate", "last"):
        ready = built(path, {"w1": 0.0, "w2": 0.0, "keep": keep, "steps": 60})
        found = done(ready)
        plain, decrease = Plain(ready), []
        for k in range(N):
            if not ready.data.valid.size[k]:
                continue
            _, x, y = plain.split("valid", k)
            bad = plain.attacked(x, y)
            decrease.append(plain.accuracy(found[k], bad, y))
        left[keep] = float(np.mean(decrease))
    assert left["transferable"] < left["accurate"] - 0.05
    assert left["transferable"] < left["last"] - 0.05


def test_a_larger_weight_keeps_examples_transferable(path):
    """How far v's probabilities on x_adv are from those of w*."""
    away = []
    for w1 in (0.0, 1.0, 4.0):
        own = {"w1": w1, "w2": 0.0, "keep": "last", "steps": 40, "lr": 0.1}
        ready = built(path, own)
        found, each = done(ready), []
        plain = Plain(ready)
        for k in range(N):
            _, x, y = plain.split("train", k)
            bad = plain.attacked(x, y)
            p, z = (plain.outputs(u, bad).softmax(1) for u in (found[k], plain.w))
            each.append(float((p - z).abs().sum(1).mean()))
        away.append(np.mean(each))
    assert away[0] > 1.3 * away[1] > 1.3 * 1.3 * away[2]


@pytest.mark.parametrize(
    ("plan", "against", "keep"),
    [
        (LOOP, "shared", "last"),
        (LOOP, "finetune", "last"),
        (THREADS, "finetune", "transferable"),
        pytest.param(VMAP, "shared", "transferable", marks=TRACED),
    ],
)
def test_every_client_chooses_by_the_rule(path, plan, against, keep):
    """The largest that does not lower its validation accuracy, as runs by themselves.

    Without validation data nothing is lowered.
    """
    candidates, fixed = [0.05, 0.5, 5.0], {"keep": keep, "lr": 0.1, "steps": 20}
    alone = [made(path, {"w1": c, "w2": 0.1, **fixed}) for c in candidates]
    free = made(path, {"w1": 0.0, "w2": 0.0, **fixed})
    own = {"w1": "auto", "w2": 0.1, "candidates": candidates, "against": against}
    ready = built(path, own | fixed, plan)
    found = done(ready)
    plain, picked = Plain(ready), []
    for k in range(N):
        _, x, y = plain.split("valid", k)
        before = plain.w if against == "shared" else free[k]
        right = [plain.accuracy(v[k], x, y) if len(y) else 1.0 for v in (*alone,)]
        least = plain.accuracy(before, x, y) if len(y) else 0.0
        fit = [i for i, r in enumerate(right) if r >= least]
        at = fit[-1] if fit else 0
        assert torch.allclose(found[k], alone[at][k], 0, 1e-9), (k, at)
        picked.append(at)
    if (against, keep) == ("finetune", "last"):
        assert len(set(picked)) > 1
    f = ready.federation
    rows = f.population.read(np.arange(N))
    told = f.engine.told(rows)
    assert f.engine.client.columns == ("w1", "w2")
    assert told.tolist() == [[candidates[at], 0.1] for at in picked]


def test_before_the_end_nothing_is_chosen(path):
    ready = built(path, {"w1": "auto", "w2": 0.0})
    f = ready.federation
    told = f.engine.told(f.population.read(np.arange(N)))
    assert told.isnan().all() and f.population.width == f.engine.task.d + 1


def test_both_may_be_chosen(path, tmp_path):
    """A client's pair is in clients.csv, and its model is that of the pair."""
    own = {"w1": "auto", "w2": "auto", "candidates": [0.1, 1.0], "lr": 0.1}
    engine = {"how": "threads", "device": "cpu"}
    [run] = troth.run(tree(path, own, engine=engine), out=tmp_path / "run")
    for k, pair in enumerate(zip(run.clients["w1"], run.clients["w2"], strict=True)):
        w1, w2 = map(float, pair)
        alone = made(path, {"w1": w1, "w2": w2, "lr": 0.1}, THREADS)
        assert torch.equal(tasks.flatten(run.model(k)), alone[k])


def test_what_a_step_computes(path):
    """Adversarial examples once, however many weights are tried side by side."""
    counts = {}
    net = nn.Linear(4, 3).double()
    plain = tasks.functional(tasks.Objective(net, 3), "float64")

    def counted(name):
        def function(*given):
            counts[name] = counts.get(name, 0) + 1
            return getattr(plain, name)(*given)

        return function

    each = {
        name: counted(name) for name in ("loss", "grad", "predict", "slope", "climb")
    }
    task, w = plain._replace(**each), tasks.flatten(net)
    for w1, many in ((1.0, 1), ("auto", 3), (0.0, 0)):
        one = phase(task, w1=w1, w2=0.1, keep="last", candidates=[0.1, 0.5, 1.0])
        carry = one.begin(sent(w), ())
        counts.clear()
        one.step(sent(w), carry, batch(), batch())
        seen = {"slope": many, "climb": ITERATIONS + 1} if many else {}
        assert counts == seen | {"grad": max(1, many)}


@pytest.mark.parametrize("aggregator", ["mean", "median"])
@pytest.mark.parametrize("attack", ["sign_flip", "model_replacement", "infinite"])
def test_under_attack_and_with_any_aggregator(path, aggregator, attack):
    company = {"adversary": {"count": 1}, "attack": attack, "aggregator": aggregator}
    ready = built(path, {"keep": "last"}, train={"cohort": 0}, **company)
    found, w = done(ready), ready.federation.broadcast.w
    if bool(w.isfinite().all()) and w.abs().max() < 1e3:
        assert found.isfinite().all()
        assert not torch.allclose(found, w.expand_as(found), 0, 1e-6)


def test_newcomers(path, tmp_path):
    share = {"newcomers": 0.2}
    own = {"w1": "auto", "candidates": [0.1, 1.0], "keep": "last"}
    whole = tree(path, own, evaluate=share)
    whole["engine"] = {"how": "threads", "device": "cpu"}
    [run] = troth.run(whole, out=tmp_path / "run")
    assert set(run.clients["w1"]) <= {0.1, 1.0}
    x = np.random.default_rng(0).random((30, 4))
    arrays = {"x": x, "y": np.arange(30) % 3}
    late = troth.personalize(run, arrays)
    assert not torch.equal(tasks.flatten(late.model), tasks.flatten(run.shared()))
    outside = arrays | {"x": x - 3}
    with pytest.raises(Refusal, match="adversarial.bounds"):
        troth.personalize(run, outside)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_other_precisions(path, precision):
    found = made(path, {"w1": 1.0}, train={"precision": precision})
    assert found.isfinite().all() and found.dtype == torch.float32
