"""Runs whose adversarial examples are known in closed form, and runs that are refused.

A linear model of two classes: the loss grows along ±(w₁ − w₀) everywhere, so that x_adv
is x ± ε·sign(w₁ − w₀), clipped. Intervals hold as often as they say.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom, binomtest, multinomial

import troth
from troth import api, devices, files
from troth.data import load
from troth.examine import audit
from troth.examine.audit import ALPHA, _apart, _interval
from troth.networks import flat
from troth.runs.load import Run
from troth.types import Refusal


@pytest.mark.parametrize(("count", "m"), [(0, 7), (3, 7), (7, 7), (41, 160)])
def test_intervals_are_those_of_clopper_and_pearson(count, m):
    expected = binomtest(count, m).proportion_ci(1 - ALPHA, method="exact")
    assert _interval(count, m, ALPHA) == pytest.approx((expected.low, expected.high))
    low, high = _interval(3.5, 10, ALPHA)  # halves are rounded outwards
    assert low == _interval(3, 10, ALPHA)[0] and high == _interval(4, 10, ALPHA)[1]


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5])
@pytest.mark.parametrize("q", [0.0, 0.1, 0.5])
def test_differences_of_independent_shares(p, q):
    """By enumeration: the chance to miss is at most ALPHA."""
    missed = 0.0
    for a in range(13):
        for b in range(8):
            low, high = _apart((a, 12), (b, 7))
            assert low <= a / 12 - b / 7 <= high
            chance = binom.pmf(a, 12, p) * binom.pmf(b, 7, q)
            missed += chance * (not low <= p - q <= high)
    assert missed <= ALPHA


@pytest.mark.parametrize("p", [(0.0, 0.0), (0.3, 0.0), (0.4, 0.3), (0.1, 0.05)])
def test_differences_of_shares_of_the_same_examples(p):
    """Examples that only one of two models has right, and those that only the other."""
    m, missed = 12, 0.0
    law = multinomial(m, [*p, 1 - sum(p)])
    for a, b in np.ndindex(m + 1, m + 1):
        if a + b <= m:
            low, high = _apart((a, m), (b, m))
            chance = law.pmf([a, b, m - a - b])
            missed += chance * (not low <= p[0] - p[1] <= high)
    assert missed <= ALPHA


CLIENTS, EACH, EPS = 4, 60, 0.15


def shards(place, **more):
    """Four clients with a shortcut each: features 0–2 are about the label at all, 3–6
    is bright where the label is 1 at client 0 … 3, but not for those of group 1."""
    random = np.random.default_rng(3)
    owner = np.repeat(np.arange(CLIENTS), EACH)
    y = random.integers(0, 2, len(owner))
    group = (random.random(len(owner)) < 0.25).astype(np.int64)
    x = random.random((len(owner), 7)).astype(np.float32)
    x[:, :3] = np.clip(0.5 + 0.2 * (y[:, None] - 0.5) + 0.3 * (x[:, :3] - 0.5), 0, 1)
    x[np.arange(len(owner)), 3 + owner] = np.where(group == 1, 1 - y, y)
    np.savez(place, x=more.pop("x", x), y=y, owner=owner, **({"group": group} | more))
    return str(place)


def trained(place, path, **sections):
    tree = {
        "data": {"name": "npz", "path": path},
        "partition": {"name": "natural", "split": [0.4, 0.2, 0.4]},
        "train": {"rounds": 4, "epochs": 2, "batch": 8, "lr": 0.5},
        "personalizer": {"name": "finetune", "epochs": 20},
        "engine": {"how": "loop", "chunk": 1, "device": "cpu"},
        "evaluate": {"every": 4},
    }
    (run,) = api.run(tree | sections, out=place)
    return run.path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    place = tmp_path_factory.mktemp("audited")
    return trained(place / "run", shards(place / "data.npz"))


@pytest.fixture
def run(tuned, tmp_path):
    """A run of one's own, to be written to."""
    return Path(shutil.copytree(tuned, tmp_path / "run"))


def slope(net):
    """Of the margin for class 1."""
    x = torch.zeros(1, 7, requires_grad=True)
    outputs = net(x)
    (outputs[0, 1] - outputs[0, 0]).backward()
    return x.grad[0]


def right(net, x, y):
    with torch.no_grad():
        return np.asarray(net(x).argmax(dim=1) == y)


def test_by_the_closed_form(run):
    found = troth.audit(run, eps=EPS)
    opened, t = Run(run), found.table
    arrays, held, _ = load.deal(opened.experiment, None)
    assert t["client"].tolist() == [0, 1, 2, 3]
    for k in range(CLIENTS):
        shared, own = opened.shared(), opened.model(k)
        x, y = (torch.from_numpy(a[held.test[k]]) for a in (arrays.x, arrays.y))
        away = EPS * (1 - 2 * y)[:, None] * slope(shared).sign()
        adv = (x + away).clamp(0, 1)
        assert t["examples"][k] == len(y)
        assert t["accuracy"][k] == right(own, x, y).mean()
        assert t["shared_accuracy"][k] == right(shared, x, y).mean()
        own_adv, shared_adv = right(own, adv, y), right(shared, adv, y)
        assert t["adv_accuracy"][k] == own_adv.mean()
        assert t["transferability"][k] == 1 - own_adv.mean()
        assert t["shared_adv_accuracy"][k] == shared_adv.mean()
        change = own_adv.mean() - shared_adv.mean()
        assert t["change"][k] == pytest.approx(change)
        assert t["change_low"][k] <= change <= t["change_high"][k]
        a, b = slope(shared), slope(own)
        theta = torch.acos(a @ b / a.norm() / b.norm()).rad2deg()
        assert t["angle"][k] == pytest.approx(float(theta), abs=0.02)
        v, w = (flat.flatten(net) for net in (own, shared))
        assert t["distance"][k] == pytest.approx(float((v - w).detach().norm()))
        with torch.no_grad():
            sure = own(x).softmax(dim=1).amax(dim=1).mean()
        assert t["confidence"][k] == pytest.approx(float(sure), rel=1e-5)
        x, y = (torch.from_numpy(a[held.valid[k]]) for a in (arrays.x, arrays.y))
        gain = right(own, x, y).mean() - right(shared, x, y).mean()
        assert t["valid_gain"][k] == pytest.approx(gain)


def test_disparity_by_group(run):
    """Without a test set of that name, test examples of group 1 conflict."""
    t = troth.audit(run, eps=EPS).table
    opened = Run(run)
    arrays, held, _ = load.deal(opened.experiment, None)
    x, y = (torch.from_numpy(a) for a in (arrays.x, arrays.y))
    for k in range(CLIENTS):
        test = held.test[k]
        against = test[arrays.group[test] == 1]
        accuracy = [
            right(net, x[rows], y[rows]).mean()
            for net in (opened.model(k), opened.shared())
            for rows in (test, against)
        ]
        assert t["conflicting"][k] == len(against) > 0
        assert t["conflicting_accuracy"][k] == accuracy[1]
        assert t["disparity"][k] == pytest.approx(accuracy[0] - accuracy[1])
        assert t["shared_disparity"][k] == pytest.approx(accuracy[2] - accuracy[3])
    assert t["disparity"].mean() > 0.4  # the shortcuts were learnt
    assert "bound" not in t  # nothing says which features are spurious


def test_models_that_are_the_shared_one(run):
    w = flat.flatten(Run(run).network()).detach()
    rows = {"parameters": w[None], "client": torch.tensor([-1])}
    files.save(run / files.PERSONAL, rows)
    found = audit.audit(run, eps=EPS)
    t = found.table
    assert t["transferability"].tolist() == (1 - t["shared_adv_accuracy"]).tolist()
    for name in ("change", "l_trans", "angle", "distance", "valid_gain"):
        assert not t[name].any(), name
    assert (t["ratio"] == 1).all()
    assert (t["disparity"] == t["shared_disparity"]).all()
    assert not found.clients("suspect", 1.0)


def test_the_file_holds_the_table(run, tmp_path):
    found = audit.audit(Run(run), eps=EPS, out=tmp_path / "a" / "b")
    assert found.file == tmp_path / "a" / "b" / "audit.csv"
    assert not (run / "audit.csv").exists()
    read = files.read_csv(found.file)
    assert [*read] == [*found.table]
    for name, column in read.items():
        np.testing.assert_array_equal(column, found.table[name])
    assert audit.audit(run, eps=EPS).file.read_bytes() == found.file.read_bytes()
    assert '"eps": 0.15' in (run / "audit.json").read_text()


def test_verdicts(run):
    found = audit.audit(run, eps=0.4)
    low, high = found.table["change_low"], found.table["change_high"]
    expected = np.where(low > 0.1, 1.0, np.where(high <= 0.1, 0.0, np.nan))
    np.testing.assert_array_equal(found.table["suspect"], expected)
    every = [found.clients("suspect", v) for v in (1.0, 0.0, np.nan)]
    assert sorted(sum(every, [])) == [0, 1, 2, 3]


def test_options_are_the_run_s_own_where_none_is_given(run):
    text = (run / files.EXPERIMENT).read_text()
    assert "eps = 0.1\n" in text
    (run / files.EXPERIMENT).write_text(text.replace("eps = 0.1\n", "eps = 0.15\n"))
    own, given = audit.audit(run), audit.audit(run, eps=0.1, norm="l2")
    assert own.settings["adversarial"]["eps"] == 0.15
    assert given.settings["adversarial"]["norm"] == "l2"
    assert (own.table["shared_adv_accuracy"] < given.table["shared_adv_accuracy"]).any()


def test_a_random_start_is_drawn_the_same_again(run):
    options = {"start": "random", "iterations": 1, "step": 0.01}
    one, two = (audit.audit(run, **options).table["l_trans"] for _ in range(2))
    assert (one == two).all()
    assert (one != audit.audit(run).table["l_trans"]).all()


def test_a_client_without_validation_data(tmp_path):
    owner, at = np.repeat(np.arange(CLIENTS), EACH), np.arange(CLIENTS * EACH)
    split = np.where(at % 3 == 0, "test", "train")
    part = {"name": "natural", "split": "given"}
    none = shards(tmp_path / "none.npz", split=split)
    run = trained(tmp_path / "none", none, partition=part)
    refused("none of 4 clients has examples .* take 'test' instead", run, on="valid")
    assert np.isnan(audit.audit(run).table["valid_gain"]).all()
    split = np.where((at % 3 == 1) & (owner < 3), "valid", split)
    some = shards(tmp_path / "some.npz", split=split)
    run = trained(tmp_path / "some", some, partition=part)
    told = []
    found = audit.audit(run, on="valid", watch=told.append)
    assert [p.done for p in told] == [1, 2, 3, 4]
    assert found.table["examples"].tolist() == [20, 20, 20, 0]
    for name in ("adv_accuracy", "valid_gain", "suspect"):
        assert np.isnan(found.table[name][3]), name
    assert not np.isnan(found.table["valid_gain"][:3]).any()
    assert 3 in found.clients("suspect", np.nan)


def test_what_is_said_of_weak_examples_and_bad_references(run, tmp_path):
    (weak, *_) = audit.audit(run, eps=1e-6).rough
    assert "larger --eps" in weak
    path = Run(run).experiment.data.options["path"]
    attacked = {"adversary": {"clients": [1]}, "attack": "sign_flip"}
    local = trained(tmp_path / "local", path, personalizer="local", **attacked)
    found = audit.audit(local)
    assert found.table["client"].tolist() == [0, 2, 3]
    said = " ".join(found.rough)
    assert "1 of 4 clients are malicious" in said and "'local' never starts" in said


def refused(words, run, **given):
    with pytest.raises(Refusal, match=words) as caught:
        audit.audit(run, **given)
    assert "\n" not in str(caught.value)
    assert not (run / "audit.csv").exists()


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (r"adversarial.eps = 0.0 must be a positive", {"eps": 0.0}),
        (r"adversarial.eps = nan must be a positive", {"eps": float("nan")}),
        (r"iterations = 0 must be at least 1", {"iterations": 0}),
        ("norm", {"norm": "l7"}),
        ("'pgd' has no option 'epsilon'", {"epsilon": 1.0}),
        ("they lie between .* set adversarial.bounds", {"bounds": [0.2, 0.8]}),
        ("on = 'train' must be test or valid", {"on": "train"}),
        ("limit = 1.0 must be", {"limit": 1.0}),
        ("there is no client 9", {"clients": "9,"}),
        ("cannot be written .* --out", {"out": Path(__file__)}),
    ],
)
def test_refusals(tuned, words, given):
    refused(words, tuned, **given)


def test_runs_that_cannot_be_audited(run, tmp_path):
    path = Run(run).experiment.data.options["path"]
    none = trained(tmp_path / "none", path, personalizer="none")
    refused("no personal models to audit .* --set personalizer.name=finetune", none)
    unsaved = trained(tmp_path / "unsaved", path, output={"personal": False})
    refused("run the experiment with output.personal = true", unsaved)
    data = {"name": "point_estimation", "clients": 3, "examples": 9}
    natural = {"name": "natural", "split": "given"}
    points = trained(tmp_path / "points", path, data=data, partition=natural)
    refused("predict numbers, but an audit counts", points)
    x = np.random.default_rng(0).normal(size=(CLIENTS * EACH, 7)).astype(np.float32)
    wide = trained(tmp_path / "wide", shards(tmp_path / "wide.npz", x=x))
    refused(r"lie between 0 and 1 .* or to \[\] .* if the data have no range", wide)
    assert len(audit.audit(wide, bounds=[]).table["client"]) == CLIENTS
    tensors, facts = files.load(run / files.SHARED)
    diverged = {k: t * torch.nan for k, t in tensors.items()}
    files.save(run / files.SHARED, diverged, **facts)
    refused("is not finite", run)
    (run / files.SUMMARY).unlink()
    (run / files.CLIENTS).unlink()
    refused("is not finished .* troth resume", run)


def test_threads_are_chosen_as_in_training(run, monkeypatch):
    seen = set()
    row = audit.row

    def watched(*given):
        seen.add(torch.get_num_threads())
        return row(*given)

    monkeypatch.setattr(audit, "row", watched)
    monkeypatch.setattr(devices, "threads", lambda device: 2)
    audit.audit(run, eps=EPS, clients="1")
    assert seen == {2} and torch.get_num_threads() == 1
