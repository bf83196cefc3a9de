"""Fine-tuning that adversarial examples of the shared model still transfer to."""

import collections

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import troth
from troth.client.adversarial.pgd import pgd
from troth.client.personalizers.transfer import disagreement, transfer
from troth.networks import task as tasks
from troth.types import Batch, Budget, Refusal

from ..hand import F64, by, drawn, sent
from ..small import (
    LOOP,
    THREADS,
    TRACED,
    VMAP,
    built,
    done,
    draws,
    on_file,
    own,
    rows,
    told,
)

SIZES = [30, 2, 22, 40, 12]  # examples of each client
N, STEPS, LR = len(SIZES), 9, 0.4
EPS, ITERATIONS = 0.15, 3
FREE = {"w1": 0.0, "w2": 0.0}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Four numbers from 0 to 1 in three classes; a client's labels are its own."""
    random = np.random.default_rng(3)
    owner = np.repeat(np.arange(N), SIZES)
    y = random.integers(0, 3, len(owner))
    classes = 0.5 + 0.15 * np.eye(4)[(y + owner // 2) % 4]
    x = (classes + random.normal(0, 0.1, (len(y), 4))).clip(0, 1)
    file = tmp_path_factory.mktemp("data") / "all.npz"
    np.savez(file, x=x, y=y, owner=owner)
    return file


def tree(path, options, **sections):
    train = {"rounds": 3, "cohort": 4, "steps": 2, "batch": 8, "lr": LR}
    usual = {
        "seed": 2,
        "partition": own("natural", split=[0.6, 0.25, 0.15]),
        "model": own("mlp", widths=[5]),
        "adversarial": {"eps": EPS, "iterations": ITERATIONS},
        "engine": {"how": "threads", "device": "cpu"},
    }
    personalizer = {"name": "transfer", "steps": STEPS} | options
    return on_file(path, personalizer, train, **usual | sections)


def trained(path, options, plan=THREADS, **more):
    """A federation, all clients' models at its end, [n, d], and it in plain torch."""
    ready = built(tree(path, options, **more), plan)
    return ready, done(ready), Plain(ready)


def batch(m=6):
    x = torch.rand(m, 4, generator=torch.Generator().manual_seed(1), dtype=F64)
    weight = torch.full((m,), 1 / m, dtype=F64)
    return Batch(x, torch.arange(m) % 3, weight, torch.tensor(0), torch.tensor(1))


def of_classes(outputs, of_w):
    """Eq. 2 as it is printed, with a minus: a value an example."""
    z, p = of_w.softmax(1), outputs.softmax(1)
    return -(z * p.log() + (1 - z) * (1 - p).log()).sum(1)


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
        """Slots, inputs, labels and adversarial inputs of a client."""
        split = getattr(self.ready.data, name)
        slots = rows(split, k)
        x, y = self.ready.data.x[split.row[slots]], split.y[slots]
        return slots, x, y, self.attacked(x, y)

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

    def way(self, k, w1, w2):
        """w* and all models after it; adversarial examples are made once, before."""
        first, x, y, bad = self.split("train", k)
        v, found = self.w.clone(), [self.w]
        for held in draws(self.ready, k, self.ready.experiment.train.rounds, STEPS):
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
        """Validation accuracy, minus the decrease of transferability; and the loss."""
        _, x, y, bad = self.split("valid", k)
        lost = self.accuracy(v, bad, y) - self.accuracy(self.w, bad, y)
        found = self.accuracy(v, x, y) - (lost if keep == "transferable" else 0)
        return round(found, 9), -float(cross_entropy(self.outputs(v, x), y))


@pytest.mark.parametrize("w2", [0.2, 0.0])
def test_is_what_plain_autograd_finds(path, w2):
    """And examples made all at once, before an epoch, are those made step by step."""
    ready, found, plain = trained(path, {"w1": 0.7, "w2": w2, "keep": "last"})
    assert (2 * ready.federation.engine.feed.per_epoch < STEPS).any()
    for k in range(N):
        assert torch.allclose(found[k], plain.way(k, 0.7, w2)[-1], 0, 1e-9), k
    assert (found - plain.w).abs().amax(1).min() > 1e-3


@pytest.mark.parametrize("select", ["epoch", "step"])
@pytest.mark.parametrize("keep", ["transferable", "accurate"])
def test_the_stopping_point(path, keep, select):
    """By hand: of equal scores the lowest loss, never w*; without validation the last.

    The loss is that of the validation examples, not of the adversarial ones.
    """
    options = {"w1": 0.05, "w2": 0.0, "keep": keep, "select": select}
    ready, found, plain = trained(path, options)
    sizes, places = ready.data.valid.size.tolist(), set()
    for k, size in enumerate(sizes):
        models, at = plain.way(k, 0.05, 0.0), STEPS
        every = (
            1 if select == "step" else int(ready.federation.engine.feed.per_epoch[k])
        )
        if size:
            tried = {*range(0, STEPS, every), STEPS}
            score = {t: plain.score(k, models[t], keep) for t in tried}
            score[0] = score[0][0], -np.inf
            at = max(tried, key=lambda t: (*score[t], t))
        assert torch.allclose(found[k], models[at], 0, 1e-9), (k, at)
        places.add(at)
    assert len(places) > 2 and 0 in sizes


@pytest.mark.slow("every candidate of every client")
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

    Without validation data nothing is lowered; before the end nothing is chosen.
    """
    candidates, fixed = [0.05, 0.5, 5.0], {"keep": keep, "lr": 0.1, "steps": 20}
    alone = [trained(path, {"w1": c, "w2": 0.1} | fixed)[1] for c in candidates]
    free = trained(path, FREE | fixed)[1]
    options = {"w1": "auto", "w2": 0.1, "candidates": candidates, "against": against}
    ready = built(tree(path, options | fixed), plan)
    f, picked = ready.federation, []
    assert torch.tensor(told(ready)).isnan().all()
    assert f.population.width == f.engine.task.d + 1
    found, plain = done(ready), Plain(ready)
    for k in range(N):
        _, x, y, _ = plain.split("valid", k)
        at = 2
        if len(y):
            least = plain.accuracy(plain.w if against == "shared" else free[k], x, y)
            fit = [i for i in range(3) if plain.accuracy(alone[i][k], x, y) >= least]
            at = max(fit, default=0)
        assert torch.allclose(found[k], alone[at][k], 0, 1e-9), (k, at)
        picked.append(at)
    assert len(set(picked)) > 1 or (against, keep) != ("finetune", "last")
    assert f.engine.client.columns == ("w1", "w2")
    assert told(ready) == [[candidates[at], 0.1] for at in picked]


def test_both_may_be_chosen(path, tmp_path):
    """A client's pair is in clients.csv, and its model is that of the pair."""
    options = {"w1": "auto", "w2": "auto", "candidates": [0.1, 1.0], "lr": 0.1}
    [run] = troth.run(tree(path, options), out=tmp_path / "run")
    for k, (w1, w2) in enumerate(
        zip(run.clients["w1"], run.clients["w2"], strict=True)
    ):
        alone = trained(path, {"w1": float(w1), "w2": float(w2), "lr": 0.1})[1]
        assert torch.equal(tasks.flatten(run.model(k)), alone[k])


@pytest.mark.parametrize(("w1", "many"), [(1.0, 1), ("auto", 3), (0.0, 0)])
def test_what_a_step_computes(w1, many):
    """Adversarial examples once, however many weights are tried side by side."""
    counts, net = collections.Counter(), nn.Linear(4, 3).double()
    plain = tasks.functional(tasks.Objective(net, 3), "float64")

    def counted(name):
        def function(*given):
            counts[name] += 1
            return getattr(plain, name)(*given)

        return function

    names = ("loss", "grad", "predict", "slope", "climb")
    task, w = plain._replace(**{n: counted(n) for n in names}), sent(tasks.flatten(net))
    attack = pgd(task, 1.0, eps=EPS, iterations=ITERATIONS)
    options = {"w1": w1, "w2": 0.1, "keep": "last", "candidates": [0.1, 0.5, 1.0]}
    one = transfer(task, by(LR), Budget(steps=1), attack, **options).finish
    carry = one.begin(w, ())
    counts.clear()
    one.step(w, carry, batch(), batch())
    seen = {"slope": many, "climb": ITERATIONS + 1} if many else {}
    assert counts == seen | {"grad": max(1, many)}


def test_newcomers(path, tmp_path):
    options = {"w1": "auto", "candidates": [0.1, 1.0], "keep": "last"}
    wanted = tree(path, options, evaluate={"newcomers": 0.2})
    [run] = troth.run(wanted, out=tmp_path / "run")
    assert set(run.clients["w1"]) <= {0.1, 1.0}
    x, y = np.random.default_rng(0).random((30, 4)), np.arange(30) % 3
    late = troth.personalize(run, {"x": x, "y": y})
    assert not torch.equal(tasks.flatten(late.model), tasks.flatten(run.shared()))
    with pytest.raises(Refusal, match="adversarial.bounds"):
        troth.personalize(run, {"x": x - 3, "y": y})
