"""Rules of an experiment: f by the adversary's share, conditions before and during."""

import json

import numpy as np
import pytest
import torch

import troth
from troth import build, files
from troth.config import reader
from troth.engine.engine import Plan
from troth.types import Refusal

N = 20


@pytest.fixture
def path(tmp_path):
    draw = np.random.default_rng(0)
    owner = np.repeat(np.arange(N), 10)
    y = draw.integers(0, 3, len(owner))
    x = draw.normal(size=(len(owner), 4)) + 2 * y[:, None]
    np.savez(tmp_path / "data.npz", x=x.astype(np.float32), y=y, owner=owner)
    return tmp_path / "data.npz"


def tree(path, **sections):
    train = {"rounds": 4, "cohort": 10, "batch": 4, "precision": "float64"}
    return {
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": [0.6, 0.1, 0.3]},
        "engine": {"device": "cpu", "how": "vmap", "chunk": 10},
        **sections,
        "train": train | sections.get("train", {}),
    }


def built(path, **sections):
    return build.build(reader.from_dict(tree(path, **sections)), plan=Plan("vmap", 10))


FIFTH = {"adversary": {"fraction": 0.2}}


def test_auto_is_the_share_of_a_cohort(path):
    made = built(path, aggregator="krum", **FIFTH)
    assert made.federation.serving.rules.aggregator.options["f"] == 2
    assert made.facts["f"] == 2  # told in the resolved experiment
    given = built(path, aggregator={"name": "krum", "f": 3}, **FIFTH)
    assert given.federation.serving.rules.aggregator.options["f"] == 3
    assert "f" not in given.facts


def test_auto_without_an_adversary_is_nobody(path):
    made = built(path, aggregator="trimmed_mean")
    assert made.federation.serving.rules.aggregator.options["f"] == 0


def test_filters_get_it_too(path):
    made = built(path, filter=["nnm"], **FIFTH)
    assert made.federation.serving.rules.filters[1].options["f"] == 2


def test_a_condition_is_refused_before_the_first_round(path):
    half = {"adversary": {"fraction": 0.5}}
    with pytest.raises(Refusal, match=r"krum with f = 5 holds for n ≥ 2f \+ 3 = 13, "):
        built(path, aggregator="krum", **half)
    built(path, aggregator={"name": "krum", "strict": False}, **half)


def test_filters_that_merge_rows_leave_fewer_for_the_condition(path):
    """Ten rows in buckets of two are five, and krum with f = 2 asks for seven."""
    buckets = {"name": "bucketing", "s": 2}
    with pytest.raises(Refusal, match="f = 2 holds for .* = 7, and n is 5"):
        built(path, filter=[buckets], aggregator="krum", **FIFTH)
    built(path, filter=[buckets], aggregator="median", **FIFTH)


SCHEDULE = "client,first,last\n" + "".join(
    f"{k},0,{3 if k < 4 else 1}\n" for k in range(N)
)


def test_a_condition_broken_on_the_way_leaves_w_and_says_so(path, tmp_path):
    """From the third round on four clients are there, and krum needs seven."""
    (tmp_path / "who.csv").write_text(SCHEDULE)
    run = troth.run(
        tree(
            path,
            aggregator="krum",
            availability={"schedule": str(tmp_path / "who.csv")},
            **FIFTH,
        ),
        out=tmp_path / "run",
    )[0]
    lines = (run.path / files.ROUNDS).read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    assert [r["stayed"] for r in rounds] == [False, False, True, True]
    assert [r["moved"] > 0 for r in rounds] == [True, True, False, False]
    assert "f = 2 holds for n ≥ 2f + 3 = 7, and n is 4" in rounds[2]["why"]
    assert "why" not in rounds[0]
    assert run.summary["stayed"] == 2


def test_verdicts_are_counted_by_client(path, tmp_path):
    sections = {"filter": ["clip"], "aggregator": {"name": "multi_krum", "m": 3}}
    attack = {"attack": "model_replacement", **FIFTH}
    run = troth.run(tree(path, **sections, **attack), out=tmp_path / "run")[0]
    lines = (run.path / files.ROUNDS).read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    for name, each in (("chosen", 3), ("clipped", 5)):
        assert [len(r[name]) for r in rounds] == [each] * 4
        counted = np.zeros(N)
        for r in rounds:
            counted[r[name]] += 1
        assert run.clients[name].tolist() == counted.tolist()
    assert run.clients["downweighted"].sum() == 0
    hostile = run.clients["malicious"] == 1
    for r in rounds:
        who = np.asarray(r["cohort"])
        if hostile[who].any():
            assert -1 <= r["cosine"] <= 1
        else:
            assert r["cosine"] is None


def test_strength_reaches_the_round(path):
    plain = built(path, **FIFTH).federation
    none = {"name": "sign_flip", "strength": 0.0}
    off = built(path, attack=none, **FIFTH).federation
    full = built(path, attack="sign_flip", **FIFTH).federation
    for a, b, c in zip(plain.train(), off.train(), full.train(), strict=True):
        assert torch.equal(a.broadcast.w, b.broadcast.w)
        assert not torch.equal(a.broadcast.w, c.broadcast.w)


def test_negative_strength_is_refused(path):
    with pytest.raises(Refusal, match=r"attack.strength = -1.0 is out of range"):
        built(path, attack={"name": "sign_flip", "strength": -1.0}, **FIFTH)


@pytest.mark.parametrize(
    ("aggregator", "rule"),
    [("mean", "mean"), ("term", "mean"), ("fedmgda", "mean"), ("krum", "median")],
)
def test_statistics_are_robust_where_the_rest_is(path, aggregator, rule):
    made = built(path, aggregator=aggregator)
    assert made.federation.serving.rules.statistics.name == rule


def test_an_attack_tries_out_the_defence_in_use(path):
    """Against the median it searches; its rows reach further than those of plain alie.

    By its own measure, the distance of the step from the benign mean.
    """
    each = []
    for attack in ("alie", "optimal_alie"):
        sections = {"attack": attack, "aggregator": "median", "adversary": {"count": 6}}
        each.append(built(path, train={"cohort": 0, "rounds": 1}, **sections))
    hostile = torch.from_numpy(each[0].hostile)
    far = []
    for made in each:
        record = made.federation.step()
        benign = record.messages.update[~hostile].mean(0)
        step = record.messages.update.median(0).values  # of 20: near enough
        far.append(float((step - benign).norm()))
    assert far[1] >= far[0]


OWN = """
def nothing(messages):
    return None


def all_rows(messages):
    return messages.update


def short(messages):
    return messages.update[0, :1]


def uneven(messages):
    return messages._replace(update=messages.update[:1])


def forgets(messages, memory):
    return messages.update.mean(dim=0)


def remembers_nothing(messages, memory):
    return messages.update.mean(dim=0), None
"""


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [
        ("aggregator", "nothing", r"gives NoneType where the model has 2 numbers"),
        ("aggregator", "all_rows", r"gives \[10, 2\] where the model has 2 numbers"),
        ("aggregator", "short", r"gives \[1\] where the model has 2 numbers"),
        ("aggregator", "forgets", r"gives a Tensor that is no pair"),
        ("aggregator", "remembers_nothing", r"gives a tuple that is no pair"),
        ("attack", "nothing", r"gives a NoneType .* it must give messages"),
        ("attack", "uneven", r"gives a Messages that does not hold one value per row"),
        ("filter", "nothing", r"gives a NoneType .* it must give messages"),
    ],
)
def test_what_rules_of_others_give_is_checked_before_the_first_round(
    path, tmp_path, monkeypatch, section, name, words
):
    (tmp_path / "given_wrong.py").write_text(OWN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    member = f"given_wrong:{name}"
    sections = {section: [member] if section == "filter" else member}
    with pytest.raises(Refusal, match=rf"'{member}' .*{words}"):
        built(path, **sections)


def test_an_attack_that_drops_rows_is_refused_before_the_start(
    path, tmp_path, monkeypatch
):
    (tmp_path / "thieves.py").write_text(
        "def steal(messages, hostile):\n"
        "    return type(messages)(*(field[~hostile] for field in messages))\n"
        "def boast(messages, note):\n"
        "    note(cohort=messages.client)\n"
        "    return messages.update.mean(0)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Refusal, match="'thieves:steal' gives 9 rows for 10"):
        built(path, attack="thieves:steal", **FIFTH)
    with pytest.raises(Refusal, match="a rule notes 'cohort'"):
        built(path, aggregator="thieves:boast")
