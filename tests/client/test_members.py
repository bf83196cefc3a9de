"""What members of a client take unless told, and where they come from."""

import pytest

from troth import lookup

KEPT, GROUPED = {"keep": "last"}, {"keep": "last", "without": "refuse"}
LAYERS = {"layers": [], "last": 1}
MEMBERS = [
    ("solver fedavg", {}, "mcmahan2017communication"),
    ("solver fedprox", {"mu": 0.01}, "li2020federated"),
    ("solver scaffold", {"option": "II", "rate": 1.0}, "karimireddy2020scaffold"),
    ("regularizer l2sq", {}, "li2021ditto"),
    ("regularizer l2", {}, "farhadkhani2022equivalence"),
    ("regularizer smooth_l2", {"delta": 1.0}, "farhadkhani2022equivalence"),
    ("regularizer kl", {}, "yu2020salvaging"),
    ("regularizer fisher", {"power": 1.0, "batches": 1}, "kirkpatrick2017overcoming"),
    ("optimizer sgd", {}, ""),
    ("optimizer momentum", {"beta": 0.9}, "polyak1964some"),
    ("optimizer adam", {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, "kingma2015adam"),
    ("schedule constant", {}, ""),
    ("schedule cosine", {"floor": 0.0}, "loshchilov2017sgdr"),
    (
        "adversarial pgd",
        {"eps": 0.1, "step": 0.0, "iterations": 10, "start": "none", "norm": "linf"}
        | {"bounds": [0.0, 1.0]},
        "madry2018towards wang2021robust",
    ),
    (
        "personalizer apfl",
        {"alpha": 0.5, "adaptive": False, "mix": "moving"},
        "deng2020adaptive li2020multitask",
    ),
    (
        "personalizer coupled",
        {"lam": 1.0, "nu": 0.0, "fit": "sum", "unit": 1.0, "solve": "step"}
        | {"report": "after"},
        "farhadkhani2022equivalence",
    ),
    (
        "personalizer ditto",
        {"lam": 1.0, "anchor": "shared", "choose": "side_by_side"}
        | {"candidates": [0.1, 1.0, 2.0], "fallback": 1.0, "few": 4},
        "li2021ditto li2020multitask",
    ),
    ("personalizer ditto_finetune", {"lam": 1.0} | KEPT, "li2021ditto"),
    ("personalizer ewc", {"lam": 1.0, "batches": 4}, "kirkpatrick2017overcoming"),
    ("personalizer fedbn", {}, "li2021fedbn"),
    ("personalizer fedper", LAYERS, "arivazhagan2019federated"),
    ("personalizer fedrep", LAYERS, "collins2021exploiting"),
    ("personalizer finetune", KEPT, "li2021ditto"),
    ("personalizer group_dro", {"step": 0.01} | GROUPED, "sagawa2020distributionally"),
    (
        "personalizer l2sgd",
        {"lam": 1.0, "variant": "partial", "p": 0.5},
        "hanzely2020federated li2021ditto",
    ),
    ("personalizer local", {}, ""),
    ("personalizer mapper", {"weights": [0.25, 0.5, 0.75]}, "mansour2020three"),
    (
        "personalizer mixture",
        {"lam": 0.5, "start": "own", "distance": "sum"},
        "alfarra2022certified hanzely2020federated",
    ),
    ("personalizer none", {}, ""),
    (
        "personalizer per_fedavg",
        {"variant": "first_order", "alpha": 0.01, "delta": 1e-3, "same_batch": False},
        "fallah2020personalized",
    ),
    (
        "personalizer pfedme",
        {"lam": 1.0, "inner": 5, "tol": 0.0},
        "dinh2020personalized",
    ),
    ("personalizer skl", {"lam": 1.0} | KEPT, "yu2020salvaging"),
    (
        "personalizer transfer",
        {"w1": 1.0, "w2": 0.1, "candidates": [0.01, 0.1, 1.0, 10.0]}
        | {"against": "shared", "keep": "transferable"},
        "wang2021robust",
    ),
    ("personalizer upweight", GROUPED, "sagawa2020distributionally wang2021robust"),
]


@pytest.mark.parametrize(("member", "options", "keys"), MEMBERS)
def test_options_and_references(member, options, keys):
    kind, name = member.split()
    assert lookup.check(kind, name, {}) == options
    entries = lookup.about(kind, name).citations
    assert [e.split("{")[1].partition(",")[0] for e in entries] == keys.split()


def test_none_is_left_out():
    named = {member for member, *_ in MEMBERS} | {"schedule steps"}
    for kind in {member.split()[0] for member in named}:
        assert {f"{kind} {n}" for n in lookup.names(kind)} == {
            member for member in named if member.startswith(f"{kind} ")
        }
