"""What members of a client take unless told, and where they come from.

The pages of docs/personalizers say it of personalizers, and are held to it.
"""

import pytest

from troth import lookup

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
