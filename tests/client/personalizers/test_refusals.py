"""What personalizers refuse, and what just passes."""

import re
from collections import OrderedDict

import pytest
from torch import nn

from troth import lookup
from troth.client.client import maker
from troth.config import reader
from troth.networks import task as tasks
from troth.networks.flat import Masks
from troth.types import Refusal

from ..hand import INF, NAN
from ..small import built, own

RULES = ("side_by_side", "paper", "code")


def client(personalizer, classes=3, **sections):
    """That of an experiment, by lr = 0.1 unless told, without data."""
    parts = {
        "conv1": nn.Linear(5, 4),
        "norm1": nn.BatchNorm1d(4),
        "conv2": nn.Linear(4, 3),
        "norm2": nn.BatchNorm1d(3, affine=False),
        "fc": nn.Linear(3, classes or 1),
    }
    net = nn.Sequential(OrderedDict(parts))
    tree = {"train": {"lr": 0.1}, "personalizer": personalizer} | sections
    task = tasks.functional(tasks.Objective(net, classes))
    return maker(reader.from_dict(tree), masks=Masks(net))(task)


AT_LEAST_0 = "must be a finite number of at least 0"
ABOVE_0 = "must be a finite number above 0"
BELOW = "must stay below 2; set personalizer.lr below"
AUTO, RANDOM = {"lam": "auto"}, {"variant": "randomised"}
VALUES = [  # personalizer, option, values, words, other options
    *(
        (name, "lam", [-1.0, -1e-12, -INF, NAN, INF], AT_LEAST_0, {})
        for name in ("ditto", "ditto_finetune", "ewc", "skl", "l2sgd")
    ),
    ("l2sgd", "lam", [-0.1, NAN, INF], "must be a finite number", RANDOM),
    ("l2sgd", "p", [0.0, 1.0, -0.5, 1.5, NAN, INF], "must lie strictly b", RANDOM),
    ("apfl", "alpha", [-0.1, 1.0000001, NAN, INF], "must lie in [0, 1]: it", {}),
    ("mixture", "lam", [-0.1, 1.1, NAN, INF, -INF], "must lie in [0, 1]; 1 is the", {}),
    ("pfedme", "lam", [0.0, -1.0, NAN, INF], ABOVE_0, {}),
    ("pfedme", "tol", [-1e-9, NAN, INF], AT_LEAST_0, {}),
    ("pfedme", "inner", [0, -3], "must be at", {}),
    ("per_fedavg", "alpha", [-0.1, NAN, INF], AT_LEAST_0, {}),
    ("per_fedavg", "delta", [0.0, -1e-3, NAN], ABOVE_0, {"variant": "hessian_free"}),
    ("ewc", "batches", [0, -1], "must be at l", {}),
    ("group_dro", "step", [-0.1, NAN, INF], "must be at least 0, such as", {}),
    ("mapper", "weights", [[]], "leave nothing to choose; give some in [0, 1]", {}),
    ("coupled", "lam", [0.0, -1.0], ABOVE_0, {}),
    ("coupled", "nu", [-1.0], "must be at least 0", {}),
    ("transfer", "w1", [-0.1, NAN, INF], AT_LEAST_0, {}),
    ("transfer", "w2", [-0.1, NAN, INF], AT_LEAST_0, {}),
    ("transfer", "candidates", [[]], "leave no weight to choose; give", {"w2": "auto"}),
    ("ditto", "candidates", [[]], "leave no λ to choose; give some, s", AUTO),
    ("ditto", "fallback", [-1.0], "must be a finite number", AUTO),
    ("ditto", "few", [-1], "must be at least 0", AUTO),
]
BAD = [
    (name, {option: x} | more, f"{name}'s {option} = {x} {words}")
    for name, option, values, words, more in VALUES
    for x in values
]
BAD += [
    row
    for part in ("fedper", "fedrep")
    for row in [
        (part, {"layers": ["fc", "head"]}, "personalizer.layers: 'head' matches noth"),
        (part, {"last": 6}, "personalizer.last = 6 must be at least 0 and at most 5"),
    ]
]
BAD += [
    ("ditto", AUTO | {"candidates": [1.0, -0.1]}, "'s candidates[1] = -0.1 must be a"),
    ("ditto", AUTO | {"candidates": [NAN]}, "'s candidates[0] = nan must be a finite"),
    (
        "ditto",
        AUTO | {"candidates": [1.0, 30.0, 2.0]},
        f"diverges: lr·candidates[1] = 0.1·30 = 3 {BELOW} 0.06666",
    ),
    (
        "ditto",
        AUTO | {"fallback": 20.0},
        f"diverges: lr·fallback = 0.1·20 = 2 {BELOW} 0.1",
    ),
    ("mapper", {"weights": [0.5, -0.1]}, "weights[1] = -0.1 must lie in [0, 1]: it"),
    ("mapper", {"weights": [0.5, INF]}, "mapper's weights[1] = inf must lie in [0, 1]"),
    ("coupled", {"unit": 0.0}, "its unit = 0.0 above 0"),
    ("transfer", {"w1": "auto", "candidates": [1.0, -1.0]}, "candidates[1] = -1.0 mus"),
    # Steps that diverge. Each passes with a little less, of which LESS has more.
    ("ditto", {"lam": 20.0}, f"lr·lam = 0.1·20 = 2 {BELOW} 0.1"),
    ("ditto_finetune", {"lam": 20.0}, f"lr·lam = 0.1·20 = 2 {BELOW} 0.1"),
    ("ditto_finetune", {"lam": 1e300, "lr": 1.0}, f"= 1e+300 {BELOW} 2e-300"),
    ("l2sgd", {"lam": 20.0}, f"l2sgd's step diverges: lr·lam = 0.1·20 = 2 {BELOW} 0.1"),
    ("l2sgd", {"lam": 10.0, "p": 0.5} | RANDOM, f"lr·lam/p = 0.1·20 = 2 {BELOW} 0.1"),
    ("mixture", {"lr": 2.0}, f"diverges: lr·2(1 − lam) = 2·1 = 2 {BELOW} 2"),
    ("mixture", {"lr": 3.8, "optimizer": "momentum"}, "set personalizer.lr below 3.8"),
    ("pfedme", {"lam": 20.0}, f"pfedme's step diverges: lr·lam = 0.1·20 = 2 {BELOW}"),
    ("transfer", {"w2": 5.0, "lr": 0.4}, f"lr·w2·curvature = 0.4·5·2 = 4 {BELOW}"),
    ("transfer", {"w2": "auto", "lr": 0.4}, "lr·candidates[3]·curvature = 0.4·10·2"),
]
LESS = [
    ("ditto", {"lam": 1, "candidates": [], "few": -1}),  # not asked for: not checked
    ("ditto", {"lam": 1e6, "optimizer": "adam"}),
    ("ewc", {"lam": 1e9}),
    ("l2sgd", {"lam": 19.9}),
    ("l2sgd", {"lam": 9.9, "p": 0.5} | RANDOM),
    ("l2sgd", {"p": 1.5}),  # tosses none: a grid may mix both
    ("mixture", {"lr": 1.999}),
    ("mixture", {"lr": 1e6, "lam": 1.0}),
    ("mixture", {"lr": 3.7, "optimizer": "momentum"}),
    ("mixture", {"lr": 1e6, "lam": 0.0, "optimizer": "adam"}),
    ("per_fedavg", {"delta": -1.0}),
    ("pfedme", {"lam": 19.9}),
    ("transfer", {"candidates": []}),  # nobody chooses
    ("transfer", {"w1": "auto", "candidates": [0.1, 10.0], "lr": 0.4}),
    ("transfer", {"w2": "auto", "candidates": [10.0], "lr": 0.4, "optimizer": "adam"}),
]


@pytest.mark.parametrize(("name", "options", "words"), BAD, ids=str)
def test_bad_options(name, options, words):
    with pytest.raises(Refusal, match=re.escape(words)) as refusal:
        client({"name": name, **options})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("name", "options"), LESS, ids=str)
def test_a_little_less_passes(name, options):
    client({"name": name, **options})


FLAT = own("smooth_l2", delta=0.1)
SECTIONS = [
    (
        own("ditto_finetune", lam=2.0),
        {"regularizer": FLAT},
        f"lr·lam·curvature = 0.1·2·10 = 2 {BELOW} 0.1",
    ),
    (
        own("ditto_finetune", lam=20.0),
        {"regularizer": own("fisher", power=0.0)},
        f"lr·lam = 0.1·20 = 2 {BELOW} 0.1",
    ),
    (
        own("pfedme", lam=5.0, lr=0.1),
        {"train": {"lr": 0.5}},
        "lr·lam = 0.5·5 = 2.5 must stay below 2; set train.lr below 0.4",
    ),
    (
        own("coupled"),
        {"regularizer": "kl"},
        "regularizer.name to l2sq, l2 or smooth_l2",
    ),
    *(
        (
            own("l2sgd", optimizer=optimizer, **RANDOM),
            {},
            "takes plain gradient steps, and the optimizer keeps moments; set",
        )
        for optimizer in ("momentum", "adam")
    ),
    *(
        (
            own("per_fedavg", variant=variant),
            {"train": {"batch": least - 1}},
            f"{least} different batches a step, which are parts of one batch of "
            f"[train], and that has {least - 1} examples; set train.batch to at least "
            f"{least}, or personalizer.same_batch = true",
        )
        for variant, least in (("first_order", 2), ("hessian_free", 3))
    ),
    *(
        (own(name, keep="accurate"), {"classes": 0}, "compares accuracies, and")
        for name in ("finetune", "ditto_finetune", "upweight", "group_dro")
    ),
    (own("skl"), {"classes": 0}, "compares predicted probabilities of classes"),
    (own("transfer"), {"classes": 0}, "this is a regression; take ditto_finetune"),
]


@pytest.mark.parametrize(("own", "sections", "words"), SECTIONS, ids=str)
def test_what_does_not_go_together(own, sections, words):
    with pytest.raises(Refusal, match=re.escape(words)):
        client(own, **sections)


def test_what_goes_together():
    client(own("ditto_finetune", lam=1.99), regularizer=FLAT)
    for regularizer in ("l2", "kl", "fisher"):  # no curvature is known
        client(own("ditto_finetune", lam=1e6), regularizer=regularizer)
    client(own("pfedme", lam=1e6), train={"lr": 0.1, "optimizer": "adam"})
    for variant in ("first_order", "hessian_free"):
        whole = own("per_fedavg", variant=variant, same_batch=True)
        client(whole, train={"batch": 1})
    client(own("per_fedavg", variant="hessian_free"), train={"batch": 3})
    full = lookup.check("personalizer", "ditto", {"lam": 1, "candidates": [0, 2]})
    assert (full["lam"], full["candidates"]) == (1.0, [0.0, 2.0])


def test_models_without_normalization(tree):
    words = "no normalization layer that is trained"
    for section in ({}, {"personalizer": own("fedbn", lr=0.1)}):
        with pytest.raises(Refusal, match=words + ".* some of its layers: 0, 2$"):
            built(tree("plain", "fedbn") | section)
    frozen = {"model": own("layered:normed", freeze=["norm*"])}
    with pytest.raises(Refusal, match=words):
        built(tree("normed", "fedbn") | frozen)


CHOOSING = [
    *(own("ditto", lam="auto", choose=rule) for rule in RULES),
    *(own("transfer", keep=keep) for keep in ("transferable", "accurate")),
    *(
        own(name, keep=keep)
        for name in ("finetune", "ditto_finetune", "skl", "upweight", "group_dro")
        for keep in ("best", "accurate")
    ),
    own("transfer", keep="last", w1="auto"),
]


def test_no_validation_data_to_choose_by(tree):
    split = own("natural", split=[0.8, 0.0, 0.2])
    for choosing in CHOOSING:
        if choosing["name"] in ("upweight", "group_dro"):
            choosing = choosing | {"without": "finetune"}
        with pytest.raises(Refusal, match=r"no client has any; give partition\.split"):
            built(tree("normed", choosing, partition=split), rounds=0)
        plain = choosing | ({"keep": "last"} if "keep" in choosing else {"lam": 0.5})
        if choosing.get("w1") != "auto":
            built(tree("normed", plain, partition=split), rounds=0)
