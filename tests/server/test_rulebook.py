"""Rules of an experiment: f by the adversary's share, conditions before and during."""

import json

import numpy as np
import pytest
import torch
from clients_sent import natural

import troth
from troth import build, files
from troth.config import reader
from troth.engine.engine import Plan
from troth.types import Refusal

N = 20


@pytest.fixture
def base(tmp_path):
    draw, owner = np.random.default_rng(0), np.repeat(np.arange(N), 10)
    y = draw.integers(0, 3, len(owner))
    x = (draw.normal(size=(len(owner), 4)) + 2 * y[:, None]).astype(np.float32)
    return natural(tmp_path / "data.npz", [0.6, 0.1, 0.3], x=x, y=y, owner=owner)


def tree(base, **sections):
    train = {"rounds": 4, "cohort": 10, "batch": 4, "precision": "float64"}
    engine = {"device": "cpu", "how": "vmap", "chunk": 10}
    more = {"engine": engine, "train": train | sections.pop("train", {})}
    return base | more | sections


def trained(base, out, **sections):
    """A run, and the records of its rounds."""
    [run] = troth.run(tree(base, **sections), out=out)
    lines = (run.path / files.ROUNDS).read_text().splitlines()
    return run, [json.loads(line) for line in lines]


def built(base, **sections):
    return build.build(reader.from_dict(tree(base, **sections)), plan=Plan("vmap", 10))


FIFTH = {"adversary": {"fraction": 0.2}}


@pytest.mark.parametrize(
    ("sections", "f", "facts"),
    [
        ({"aggregator": "krum", **FIFTH}, 2, {"f": 2}),  # told in the experiment
        ({"aggregator": {"name": "krum", "f": 3}, **FIFTH}, 3, {}),
        ({"aggregator": "trimmed_mean"}, 0, {"f": 0}),  # nobody attacks
        ({"filter": ["nnm"], **FIFTH}, 2, {"f": 2}),
    ],
)
def test_auto_is_the_share_of_a_cohort(base, sections, f, facts):
    made = built(base, **sections)
    rules = made.federation.serving.rules
    rule = rules.filters[1] if "filter" in sections else rules.aggregator
    assert rule.options["f"] == f
    assert {k: v for k, v in made.facts.items() if k == "f"} == facts


def test_a_condition_is_refused_before_the_first_round(base):
    half = {"adversary": {"fraction": 0.5}}
    with pytest.raises(Refusal, match=r"krum with f = 5 holds for n ≥ 2f \+ 3 = 13, "):
        built(base, aggregator="krum", **half)
    built(base, aggregator={"name": "krum", "strict": False}, **half)


def test_filters_that_merge_rows_leave_fewer_for_the_condition(base):
    """Ten rows in buckets of two are five, and krum with f = 2 asks for seven."""
    buckets = {"name": "bucketing", "s": 2}
    with pytest.raises(Refusal, match="f = 2 holds for .* = 7, and n is 5"):
        built(base, filter=[buckets], aggregator="krum", **FIFTH)
    built(base, filter=[buckets], aggregator="median", **FIFTH)


def test_a_condition_broken_on_the_way_leaves_w_and_says_so(base, tmp_path):
    """From the third round on four clients are there, and krum needs seven."""
    rows = (f"{k},0,{3 if k < 4 else 1}\n" for k in range(N))
    (tmp_path / "who.csv").write_text("client,first,last\n" + "".join(rows))
    there = {"availability": {"schedule": str(tmp_path / "who.csv")}}
    run, rounds = trained(base, tmp_path / "run", aggregator="krum", **there, **FIFTH)
    assert [r["stayed"] for r in rounds] == [False, False, True, True]
    assert [r["moved"] > 0 for r in rounds] == [True, True, False, False]
    assert "f = 2 holds for n ≥ 2f + 3 = 7, and n is 4" in rounds[2]["why"]
    assert "why" not in rounds[0]
    assert run.summary["stayed"] == 2


def test_verdicts_are_counted_by_client(base, tmp_path):
    rules = {"filter": ["clip"], "aggregator": {"name": "multi_krum", "m": 3}}
    attack = {"attack": "model_replacement", **FIFTH}
    run, rounds = trained(base, tmp_path / "run", **rules, **attack)
    for name, each in (("chosen", 3), ("clipped", 5)):
        assert [len(r[name]) for r in rounds] == [each] * 4
        counted = np.bincount(sum((r[name] for r in rounds), []), minlength=N)
        assert run.clients[name].tolist() == counted.tolist()
    assert run.clients["downweighted"].sum() == 0
    for r in rounds:
        hostile = (run.clients["malicious"][r["cohort"]] == 1).any()
        assert -1 <= r["cosine"] <= 1 if hostile else r["cosine"] is None


def test_strength_reaches_the_round(base):
    none = {"name": "sign_flip", "strength": 0.0}
    attacks = ({}, {"attack": none}, {"attack": "sign_flip"})
    each = [built(base, **attack, **FIFTH).federation.train() for attack in attacks]
    for plain, off, full in zip(*each, strict=True):
        assert torch.equal(plain.broadcast.w, off.broadcast.w)
        assert not torch.equal(plain.broadcast.w, full.broadcast.w)


def test_an_attack_tries_out_the_defence_in_use(base):
    """Against the median it searches; its rows reach further than those of plain alie.

    By its own measure, the distance of the step from the benign mean.
    """
    far = []
    sections = {"aggregator": "median", "adversary": {"count": 6}}
    for attack in ("alie", "optimal_alie"):
        train = {"cohort": 0, "rounds": 1}
        made = built(base, train=train, attack=attack, **sections)
        update = made.federation.step().messages.update
        step = update.median(0).values  # of 20: near enough
        far.append(
            float((step - update[torch.from_numpy(~made.hostile)].mean(0)).norm())
        )
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


def steal(messages, hostile):
    return type(messages)(*(field[~hostile] for field in messages))


def boast(messages, note):
    note(cohort=messages.client)
    return messages.update.mean(0)
"""


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [
        ("aggregator", "nothing", r"gives NoneType where the model has 2 numbers"),
        ("aggregator", "all_rows", r"gives \[10, 2\] where the model has 2 numbers"),
        ("aggregator", "short", r"gives \[1\] where the model has 2 numbers"),
        ("aggregator", "forgets", r"gives a Tensor that is no pair"),
        ("aggregator", "remembers_nothing", r"gives a tuple that is no pair"),
        ("aggregator", "boast", "a rule notes 'cohort'"),
        ("attack", "nothing", r"gives a NoneType .* it must give messages"),
        ("attack", "uneven", r"gives a Messages that does not hold one value per row"),
        ("attack", "steal", "gives 9 rows for 10"),
        ("filter", "nothing", r"gives a NoneType .* it must give messages"),
    ],
)
def test_what_rules_of_others_give_is_checked_before_the_first_round(
    base, tmp_path, monkeypatch, section, name, words
):
    (tmp_path / "given_wrong.py").write_text(OWN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    member = f"given_wrong:{name}"
    said = words if name == "boast" else rf"'{member}' .*{words}"
    sections = {section: [member] if section == "filter" else member}
    with pytest.raises(Refusal, match=said):
        built(base, **sections, **FIFTH)
