"""Rules by their names, what they note, and the rules of an experiment."""

import json

import numpy as np
import pytest
import torch
from clients_sent import broadcast, messages, natural

import troth
from troth import build, files, lookup
from troth.config import reader
from troth.config.schema import Experiment, Train
from troth.engine.local_training import Plan
from troth.server import rules
from troth.server.rules import Verdicts, silent
from troth.types import Refusal

NONE = rules.no_memory()


def counting(messages, memory, *, start: int = 0):
    """Remember how often it was asked."""
    memory = torch.cat([memory, torch.tensor([float(start + len(memory))])])
    return messages.update.sum(dim=0), memory


def greedy(messages, loss, key, round_, broadcast):
    """Take all that a round has."""
    return loss, key, round_, broadcast


def lost(messages, nowhere):
    """Ask for what no round has."""
    return nowhere


def own(function, **options):
    """Make a rule of a function."""
    asks = frozenset(lookup.asks(function))
    return rules.Rule(function.__name__, function, options, asks)


def context():
    sent = messages(torch.arange(6.0).reshape(3, 2))
    given = {"broadcast": broadcast(torch.zeros(2)), "messages": sent}
    return given | {"loss": sent.loss, "key": torch.tensor(5), "round_": 7}


def test_a_member_by_its_name():
    """One without a memory leaves what is there."""
    rule = rules.lift("aggregator", "mean", {})
    assert rule.name == "mean" and rule.asks == {"messages"}
    before = torch.tensor([1.0, 2.0])
    step, memory = rule(before, **context())
    assert step.tolist() == [2.0, 3.0] and memory is before
    assert NONE.shape == (0,) and NONE.device == torch.device("cpu")


def test_only_what_it_asks_for_is_given():
    given = context()
    result, _ = own(greedy)(NONE, **given, hostile=None, step=None)
    asked = [given[k] for k in ("loss", "key", "round_", "broadcast")]
    assert all(a is b for a, b in zip(result, asked, strict=True))
    with pytest.raises(Refusal, match="'nowhere'"):
        own(lost)(NONE, **given)


def test_memory_goes_to_those_who_ask():
    rule, memory = own(counting, start=5), NONE
    assert "memory" in rule.asks
    for count in range(1, 4):
        step, memory = rule(memory, **context())
        assert step.tolist() == [6.0, 9.0]
        assert memory.tolist() == list(range(5, 5 + count))


def test_an_unknown_option_is_never_dropped():
    with pytest.raises(TypeError, match="'f'"):
        rules.lift("aggregator", "mean", {"f": 2})(NONE, **context())


# How many rows may be malicious


def test_the_share_of_a_cohort_is_rounded_down():
    """As `int(clients_per_round * num_corrupted / N)` in the authors' code."""
    for cohort, hostile, clients, f in [
        (10, 100, 500, 2),  # Ditto's Fashion-MNIST at 20 %
        (10, 3, 23, 1),  # 10 % of Vehicle's 23, rounded up, so that it is not 0
        (10, 2, 23, 0),
        (10, 19, 23, 8),
        (9, 3, 9, 3),
    ]:
        e = Experiment(train=Train(cohort=cohort))
        assert rules.expected(e, clients, hostile) == f
        assert int(cohort * hostile / clients) == f


# What rules say of clients


def verdicts(*said):
    """What came of notes of some clients, each (clients, name, rows)."""
    found = Verdicts()
    for clients, name, rows in said:
        found.of(torch.tensor(clients))(**{name: torch.tensor(rows)})
    return found.clients()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([([7, 3, 9], "chosen", [True, False, True])], {"chosen": {7, 9}}),
        ([([7, 3, 9], "clipped", [False, False, False])], {"clipped": set()}),
        # below an equal share; rounding is no verdict
        ([([0, 1, 2], "weight", [1 / 3] * 3)], {"downweighted": set()}),
        ([([0, 1, 2], "weight", [0.3, 0.3, 0.4])], {"downweighted": {0, 1}}),
        # several rules say the same of a client once
        (
            [([1, 2], "clipped", [True] * 2), ([2, 5], "clipped", [True] * 2)],
            {"clipped": {1, 2, 5}},
        ),
    ],
)
def test_rows_are_told_by_client(said, expected):
    assert verdicts(*said) == expected


def test_what_is_said_of_a_merged_row_falls_on_all_that_it_holds():
    merged = [
        ([7, 3, 9, 4, 5], "into", [3, 3, 4, 4, 5]),
        ([3, 4, 5], "chosen", [True, False, True]),
    ]
    assert verdicts(*merged) == {"chosen": {3, 5, 7}}
    again = ([3, 4, 5], "into", [3, 3, 5]), ([3, 5], "weight", [0.1, 0.9])
    assert verdicts(*merged, *again)["downweighted"] == {3, 4, 7, 9}


def test_a_rule_may_go_on_with_its_mask():
    """What is noted is read after all rules; columns may share a rule's buffer."""
    verdicts, buffer = Verdicts(), torch.tensor([True, False])
    verdicts.of(torch.tensor([4, 6]))(chosen=buffer)
    buffer.logical_not_()
    verdicts.of(torch.tensor([4, 6]))(clipped=buffer)
    buffer.fill_(True)
    assert verdicts.clients() == {"chosen": {4}, "clipped": {6}}
    silent(chosen=buffer)  # nobody has to listen


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("banana", torch.ones(3), "notes 'banana' of shape .3. for 3 updates"),
        ("cohort", torch.ones(3), "it may note clipped, chosen, weight, into"),
        ("chosen", torch.ones(2, dtype=torch.bool), "of shape .2. for 3 updates"),
        ("chosen", [True] * 3, "of shape list"),
        ("chosen", torch.tensor([2, 0, 1]), "'chosen' as torch.int64; it must be"),
    ],
)
def test_what_is_no_verdict_is_refused(name, rows, words):
    """Lest a stranger's rule write over what a round records."""
    with pytest.raises(Refusal, match=words):
        Verdicts().of(torch.arange(3))(**{name: rows})


# Rules of an experiment: f by the adversary's share, conditions before and during

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
    every = made.federation.serving.rules
    rule = every.filters[1] if "filter" in sections else every.aggregator
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
    chosen = {"filter": ["clip"], "aggregator": {"name": "multi_krum", "m": 3}}
    attack = {"attack": "model_replacement", **FIFTH}
    run, rounds = trained(base, tmp_path / "run", **chosen, **attack)
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


OWN = """
def nothing(messages):
    return None


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


def slice(messages):
    return messages.update.mean(dim=0)[:5]


def boast(messages, note):
    note(cohort=messages.client)
    return messages.update.mean(0)
"""


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [
        ("aggregator", "nothing", r"gives NoneType in a trial with updates of shape"),
        ("aggregator", "short", r"gives \[1\] in a trial with updates of shape"),
        ("aggregator", "slice", r"gives \[5\] .* one vector as long as an update"),
        ("aggregator", "forgets", r"returned a Tensor; it must return a pair"),
        ("aggregator", "remembers_nothing", r"returned a tuple; it must return a pair"),
        ("aggregator", "boast", "a rule notes 'cohort'"),
        ("attack", "nothing", r"gives a NoneType .* it must give messages"),
        ("attack", "uneven", r"a Messages that does not hold one value per client"),
        ("attack", "steal", "gives 9 messages for 10 clients"),
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
