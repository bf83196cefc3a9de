"""What personalizers refuse, and what just passes."""

import re
from collections import OrderedDict
from typing import Any

import pytest
from torch import nn

from troth import lookup
from troth.client.client import maker
from troth.config import reader
from troth.networks import task as tasks
from troth.networks.masks import Masks
from troth.types import Refusal

from ..hand import INF, NAN
from ..small import built

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


WEIGHT = "{} = {} must be a finite number of at least 0"
BAD: list[tuple[str, dict[str, Any], str]] = [
    (name, {"lam": lam}, WEIGHT.format(f"{name}'s lam", lam))
    for name in ("ditto", "ditto_finetune", "ewc", "skl", "l2sgd")
    for lam in (-1.0, -1e-12, -INF, NAN, INF)
]
BAD += [
    ("l2sgd", {"lam": lam, "variant": "randomised"}, f"l2sgd's lam = {lam} must be a f")
    for lam in (-0.1, NAN, INF)
]
BAD += [
    ("transfer", {weight: x}, WEIGHT.format(f"transfer's {weight}", x))
    for weight in ("w1", "w2")
    for x in (-0.1, NAN, INF)
]
BAD += [
    ("apfl", {"alpha": x, "adaptive": b}, f"apfl's alpha = {x} must lie in [0, 1]: how")
    for x in (-0.1, 1.0000001, NAN, INF, -INF)
    for b in (True, False)
]
BAD += [
    ("mixture", {"lam": x}, f"mixture's lam = {x} must lie in [0, 1]; 1 is the client")
    for x in (-0.1, 1.1, NAN, INF, -INF)
]
BAD += [
    ("l2sgd", {"p": p, "variant": "randomised"}, f"l2sgd's p = {p} must lie strictly b")
    for p in (0.0, 1.0, -0.5, 1.5, NAN, INF)
]
BAD += [
    ("pfedme", {"lam": x}, f"pfedme's lam = {x} must be a finite number above 0")
    for x in (0.0, -1.0, NAN, INF)
]
BAD += [
    ("pfedme", {"tol": x}, WEIGHT.format("pfedme's tol", x)) for x in (-1e-9, NAN, INF)
]
BAD += [
    ("per_fedavg", {"alpha": x}, WEIGHT.format("per_fedavg's alpha", x))
    for x in (-0.1, NAN, INF)
]
BAD += [
    (
        "per_fedavg",
        {"delta": x, "variant": "hessian_free"},
        f"per_fedavg's delta = {x} must be a finite number above 0",
    )
    for x in (0.0, -1e-3, NAN)
]
BAD += [("ewc", {"batches": n}, f"ewc's batches = {n} must be at l") for n in (0, -1)]
BAD += [("pfedme", {"inner": n}, f"pfedme's inner = {n} must be at") for n in (0, -3)]
BAD += [
    ("group_dro", {"step": x}, f"group_dro's step = {x} must be at least 0, such as")
    for x in (-0.1, NAN, INF)
]
BAD += [
    (
        "mapper",
        {"weights": []},
        "mapper's weights = [] leave nothing to choose; give some in [0, 1]",
    ),
    ("mapper", {"weights": [0.5, -0.1]}, "weights[1] = -0.1 must lie in [0, 1]: how"),
    ("mapper", {"weights": [1.1]}, "mapper's weights[0] = 1.1 must lie in [0, 1]"),
    ("mapper", {"weights": [NAN]}, "mapper's weights[0] = nan must lie in [0, 1]"),
    ("mapper", {"weights": [0.5, INF]}, "mapper's weights[1] = inf must lie in [0, 1]"),
    ("coupled", {"lam": 0.0}, "coupled's lam = 0.0 must be a finite number above 0"),
    ("coupled", {"lam": -1.0}, "coupled's lam = -1.0 must be a finite number above 0"),
    ("coupled", {"nu": -1.0}, "coupled's nu = -1.0 must be at least 0"),
    ("coupled", {"unit": 0.0}, "its unit = 0.0 above 0"),
    ("transfer", {"w1": "auto", "candidates": [1.0, -1.0]}, "candidates[1] = -1.0 mus"),
    (
        "transfer",
        {"w2": "auto", "candidates": []},
        "candidates = [] leave no weight to choose; give some, such",
    ),
]
for part in ("fedper", "fedrep"):
    BAD += [
        (
            part,
            {"layers": ["fc", "head"]},
            "personalizer.layers: 'head' matches nothing; there are: "
            "conv1.{weight, bias}, norm1.{weight, bias, running_mean, running_var}",
        ),
        (part, {"last": 6}, "personalizer.last = 6 must be at least 0 and at most 5"),
        (part, {"last": -1}, "layers of this model: conv1, norm1, conv2, norm2, fc"),
        (part, {"layers": "fc"}, "layers"),
        (part, {"depth": 1}, "depth"),
    ]
for rule in RULES:
    BAD += [
        ("ditto", {"lam": "auto", "choose": rule} | options, words)
        for options, words in [
            ({"candidates": []}, "candidates = [] leave no λ to choose; give some, s"),
            ({"candidates": [1.0, -0.1]}, "ditto's candidates[1] = -0.1 must be a fin"),
            ({"candidates": [NAN]}, "ditto's candidates[0] = nan must be a finite num"),
            ({"candidates": [INF]}, "ditto's candidates[0] = inf must be a finite num"),
            ({"fallback": -1.0}, "ditto's fallback = -1.0 must be a finite number"),
            ({"few": -1}, "ditto's few = -1 must be at least 0"),
            (
                {"candidates": [1.0, 30.0, 2.0]},
                "diverges: lr·candidates[1] = 0.1·30 = 3 must stay below 2; "
                "set personalizer.lr below 0.06666",
            ),
            (
                {"fallback": 20.0},
                "diverges: lr·fallback = 0.1·20 = 2 must stay below 2; "
                "set personalizer.lr below 0.1",
            ),
        ]
    ]
# Options of another type, or that there are not.
BAD += [
    ("none", {"lam": 1.0}, "'none' has no option 'lam'"),
    ("apfl", {"mix": "fixed"}, "'fixed' is not one of 'moving', 'shared'"),
    ("apfl", {"adaptive": 1}, "it must be true or false"),
    ("ditto", {"lam": "Auto"}, "it must be a number or 'auto'"),
    ("ditto", {"lam": "otto"}, "personalizer.lam = 'otto' is a text; it must be a num"),
    ("ditto", {"lam": True}, "personalizer.lam = True is a truth value; it must be a"),
    ("ditto", {"lam": [1.0]}, "personalizer.lam = [1.0] is a list; it must be a num"),
    ("ditto", {"anchor": "fixed"}, "'fixed' is not one of 'shared', 'moving'"),
    ("ditto", {"choose": "best"}, "'best' is not one of 'side_by_side', 'paper', 'cod"),
    ("ditto", {"candidates": 1.0}, "candidates = 1.0 is a number; it must be a list"),
    ("ditto", {"candidates": [1.0, "a"]}, "candidates[1] = 'a' is a text; it must be"),
    ("ditto", {"few": 2.5}, "personalizer.few = 2.5 is a number; it must be a whole"),
    ("finetune", {"keep": "worst"}, "keep = 'worst' is not one of 'last', 'best'"),
    ("l2sgd", {"variant": "none"}, "personalizer.variant = 'none' is not one of"),
    ("mapper", {"weights": 0.5}, "weights = 0.5 is a number; it must be a list"),
    ("mapper", {"weights": [0.5, "a"]}, "weights[1] = 'a' is a text; it must be a num"),
    ("mixture", {"start": "zero"}, "personalizer.start = 'zero' is not one of"),
    ("per_fedavg", {"variant": "full"}, "'full' is not one of 'first_order', 'hessian"),
    ("pfedme", {"inner": 2.5}, "personalizer.inner = 2.5 is"),
    ("transfer", {"keep": "first"}, "keep = 'first' is not one of 'last', 'best'"),
    ("transfer", {"w1": "all"}, "must be a number or 'auto'"),
]
# Steps that diverge. Each passes with a little less, of which LESS has more.
BELOW = "must stay below 2; set personalizer.lr below"
BAD += [
    ("ditto", {"lam": 20.0}, f"lr·lam = 0.1·20 = 2 {BELOW} 0.1"),
    ("ditto", {"lam": 8.0, "lr": 0.5}, f"lr·lam = 0.5·8 = 4 {BELOW} 0.25"),
    ("ditto_finetune", {"lam": 20.0}, f"lr·lam = 0.1·20 = 2 {BELOW} 0.1"),
    ("ditto_finetune", {"lam": 3.0, "lr": 1.0}, f"lr·lam = 1·3 = 3 {BELOW} 0.6666"),
    ("ditto_finetune", {"lam": 1e300, "lr": 1.0}, f"= 1e+300 {BELOW} 2e-300"),
    ("l2sgd", {"lam": 20.0}, f"l2sgd's step diverges: lr·lam = 0.1·20 = 2 {BELOW} 0.1"),
    (
        "l2sgd",
        {"lam": 10.0, "variant": "randomised", "p": 0.5},
        f"l2sgd's step diverges: lr·lam/p = 0.1·20 = 2 {BELOW} 0.1",
    ),
    ("mixture", {"lr": 2.0}, f"diverges: lr·2(1 − lam) = 2·1 = 2 {BELOW} 2"),
    ("mixture", {"lr": 3.8, "optimizer": "momentum"}, "set personalizer.lr below 3.8"),
    ("pfedme", {"lam": 20.0}, f"pfedme's step diverges: lr·lam = 0.1·20 = 2 {BELOW}"),
    ("transfer", {"w2": 5.0, "lr": 0.4}, f"lr·w2·curvature = 0.4·5·2 = 4 {BELOW}"),
    ("transfer", {"w2": "auto", "lr": 0.4}, "lr·candidates[3]·curvature = 0.4·10·2"),
]
LESS: list[tuple[str, dict[str, Any]]] = [
    ("ditto", {"lam": 1, "candidates": [], "few": -1}),  # not asked for: not checked
    ("ditto", {"lam": 1e6, "optimizer": "adam"}),
    ("ditto_finetune", {"lr": 0.6666, "lam": 3.0}),
    ("ditto_finetune", {"lam": 1e300, "optimizer": "adam", "lr": 1e300}),
    ("ewc", {"lam": 1e9}),
    ("l2sgd", {"lam": 19.9}),
    ("l2sgd", {"lam": 9.9, "variant": "randomised", "p": 0.5}),
    ("l2sgd", {"lam": 1e6, "optimizer": "adam"}),
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


FLAT = {"name": "smooth_l2", "delta": 0.1}
SECTIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"name": "ditto_finetune", "lam": 2.0},
        {"regularizer": FLAT},
        f"lr·lam·curvature = 0.1·2·10 = 2 {BELOW} 0.1",
    ),
    (
        {"name": "ditto_finetune", "lam": 20.0},
        {"regularizer": {"name": "fisher", "power": 0.0}},
        f"lr·lam = 0.1·20 = 2 {BELOW} 0.1",
    ),
    (
        {"name": "pfedme", "lam": 5.0, "lr": 0.1},
        {"train": {"lr": 0.5}},
        "lr·lam = 0.5·5 = 2.5 must stay below 2; set train.lr below 0.4",
    ),
    (
        {"name": "coupled"},
        {"regularizer": "kl"},
        "set regularizer.name to l2sq, l2 or smooth_l2",
    ),
    *(
        (
            {"name": "l2sgd", "variant": "randomised", "optimizer": o},
            {},
            "takes plain gradient steps, and the optimizer keeps moments; set",
        )
        for o in ("momentum", "adam")
    ),
    *(
        (
            {"name": "per_fedavg", "variant": variant},
            {"train": {"batch": least - 1}},
            f"per_fedavg needs {least} different batches a step, parts of the one that "
            f"train.batch makes, and that has {least - 1}; set train.batch to at least "
            f"{least}, or personalizer.same_batch = true to use it whole",
        )
        for variant, least in (("first_order", 2), ("hessian_free", 3))
    ),
    *(
        ({"name": name, "keep": "accurate"}, {"classes": 0}, "counts what is right, an")
        for name in ("finetune", "ditto_finetune", "upweight", "group_dro")
    ),
    ({"name": "skl"}, {"classes": 0}, "compares predicted probabilities of classes"),
    ({"name": "transfer"}, {"classes": 0}, "this is a regression; take ditto_finetune"),
]


@pytest.mark.parametrize(("own", "sections", "words"), SECTIONS, ids=str)
def test_what_does_not_go_together(own, sections, words):
    with pytest.raises(Refusal, match=re.escape(words)):
        client(own, **sections)


def test_what_goes_together():
    client({"name": "ditto_finetune", "lam": 1.99}, regularizer=FLAT)
    for regularizer in ("l2", "kl", "fisher"):  # no curvature is known
        client({"name": "ditto_finetune", "lam": 1e6}, regularizer=regularizer)
    adam = {"lr": 0.1, "optimizer": "adam"}
    client({"name": "pfedme", "lam": 1e6}, train=adam)
    for own in ({"same_batch": True}, {"variant": "hessian_free", "same_batch": True}):
        client({"name": "per_fedavg", **own}, train={"batch": 1})
    client({"name": "per_fedavg", "variant": "hessian_free"}, train={"batch": 3})
    full = lookup.check("personalizer", "ditto", {"lam": 1, "candidates": [0, 2]})
    assert (full["lam"], full["candidates"]) == (1.0, [0.0, 2.0])


def test_models_without_normalisation(tree):
    for section in ({}, {"personalizer": {"name": "fedbn", "lr": 0.1}}):
        with pytest.raises(Refusal, match="no normalisation layer that is tr") as error:
            built(tree("plain", "fedbn") | section)
        assert str(error.value).endswith("some of its layers: 0, 2")
    frozen = {"model": {"name": "layered:normed", "freeze": ["norm*"]}}
    with pytest.raises(Refusal, match="no normalisation layer that is trained"):
        built(tree("normed", "fedbn") | frozen)


CHOOSING: list[dict[str, Any]] = [
    {"name": name, "keep": keep}
    for name in ("finetune", "ditto_finetune", "skl", "upweight", "group_dro")
    for keep in ("best", "accurate")
]
CHOOSING += [{"name": "ditto", "lam": "auto", "choose": rule} for rule in RULES]
CHOOSING += [{"name": "transfer", "keep": k} for k in ("transferable", "accurate")]
CHOOSING += [{"name": "transfer", "keep": "last", "w1": "auto"}]


def test_no_validation_data_to_choose_by(tree):
    split = {"name": "natural", "split": [0.8, 0.0, 0.2]}
    for own in CHOOSING:
        grouped = own["name"] in ("upweight", "group_dro")
        own = own | ({"without": "finetune"} if grouped else {})
        with pytest.raises(Refusal, match=r"no client has any; give partition\.split"):
            built(tree("normed", own, partition=split), rounds=0)
        plain = own | ({"keep": "last"} if "keep" in own else {"lam": 0.5})
        if own.get("w1") != "auto":
            built(tree("normed", plain, partition=split), rounds=0)
