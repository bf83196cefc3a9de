import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from troth.config import reader
from troth.evaluation.paired import interval
from troth.runs import compare
from troth.runs.compare import Pair, by_seed, pairs

MALICIOUS = np.array([False, False, True, False])


def run(own, head="accuracy", **sections):
    """A finished run, as far as a comparison looks at it."""
    experiment = reader.from_dict({"personalizer": "local", **sections})
    experiment.resolved["fingerprint"] = reader.fingerprint(experiment)
    mean = float(np.array(own)[~MALICIOUS].mean())
    metrics = ("mean", "std", "weighted", "worst10")
    numbers = {f"{head}_{metric}": mean for metric in metrics}
    return SimpleNamespace(
        path=Path("out") / "run",
        experiment=experiment,
        summary={"personal": numbers, "shared": numbers, "clients": 4, "seconds": 1.0},
        clients={head: np.array(own), "malicious": MALICIOUS},
    )


def test_compare_over_seeds():
    found = [run([v] * 4, seed=i) for i, v in enumerate((0.25, 0.5, 0.75))]
    (group,) = compare.compare(found, [f"lam=1,seed={i}" for i in range(3)])
    assert group["kind"] == "seeds" and group["label"] == "lam=1"
    numbers = group["numbers"]["personal.accuracy_mean"]
    assert numbers["mean"] == 0.5
    assert numbers["half_width"] == pytest.approx(4.30265273 * 0.25 / math.sqrt(3))
    assert json.loads(json.dumps(group)) == group


def test_compare_client_by_client():
    first = run([0.25, 0.5, 0.0, 0.75])
    second = run([0.5, 0.5, 1.0, 0.5], personalizer={"name": "ditto", "lam": 0.5})
    labels = ["personalizer=local", "personalizer=ditto+lam=0.5"]
    (pair,) = compare.compare([first, second], labels)
    assert (pair["better"], pair["worse"], pair["equal"], pair["n"]) == (1, 1, 1, 3)
    assert pair["setting"] == "personalizer.name"
    assert pair["label"] == "ditto,lam=0.5 − local" and pair["p_value"] == 1
    assert pair["seeds"] == 1 and len(pair["first"]) == 1


def test_seeds_enter_one_comparison_and_p_values_are_corrected():
    """Clients 0, 1, 3 gain .25 and more under both seeds; client 2 is malicious."""
    own = {"local": [0.25, 0.25, 0, 0.5], "ditto": [0.5, 0.75, 1, 0.75]}
    own["apfl"] = [0.25, 0.5, 0, 0.25]
    found, labels = [], []
    for name, values in own.items():
        for seed in (0, 1, 2):
            made = [v + seed / 8 * (name == "ditto") for v in values]
            found.append(run(made, seed=seed, personalizer=name))
            labels.append(f"personalizer={name},seed={seed}")
    made = compare.compare(found, labels)
    first, second = made[3:]
    assert [each["kind"] for each in made] == ["seeds"] * 3 + ["paired"] * 2
    assert first["label"] == "ditto − local" and second["label"] == "apfl − local"
    assert (first["seeds"], first["n"], first["better"]) == (3, 3, 3)
    assert first["mean_difference"] == pytest.approx(1 / 3 + 1 / 8)
    assert len(first["first"]) == len(first["second"]) == 3
    ps = [pair["p_value"] for pair in (first, second)]
    assert [p["p_holm"] for p in (first, second)] == [
        pytest.approx(min(1, 2 * min(ps))),
        pytest.approx(max(ps)),
    ]
    alone = compare.compare([found[0], found[4]], [labels[0], labels[4]])
    assert alone == []  # other seeds


def test_numbers_of_clients_that_differ_between_seeds():
    values = [np.zeros(2), np.zeros(3), np.ones(2), np.array([1.0, 2.0, 3.0])]
    got = compare.over_seeds(values, "error")
    assert got.mean_difference == 1.5 and (got.n, got.worse, got.seeds) == (3, 3, 2)


def test_lower_errors_are_better():
    first = run([4, 5, 0, 6], head="error")
    second = run([3, 4, 9, 5], head="error", aggregator="median")
    (pair,) = compare.compare([first, second], ["a", "b"])
    assert (pair["better"], pair["worse"]) == (3, 0) and pair["mean_difference"] == -1


def test_other_data_are_other_clients():
    four, five = ({"name": "iid", "clients": n} for n in (4, 5))
    one, two = run([0.25] * 4, partition=four), run([0.5] * 4, partition=five)
    engine = run([0.25] * 4, engine={"chunk": 3}, partition=four)
    assert compare.compare([one, two], ["a", "b"]) == []
    assert compare.compare([one, engine], ["a", "b"]) == []


def test_entries():
    one, again = run([0.25] * 4), run([0.25] * 4, name="other", engine={"chunk": 2})
    two = run([0.25] * 4, seed=1)
    made = compare.entries([one, again, two])
    assert list(made[0]) == ["id", "folder", "experiment", "summary"]
    assert made[0]["id"] == made[1]["id"] != made[2]["id"]
    assert made[0]["folder"] == str(one.path) and made[0]["summary"] == one.summary
    assert reader.from_dict(made[2]["experiment"]) == two.experiment


def test_labels_and_numbers():
    short, difference = compare.short, compare.difference
    ditto, local = "personalizer=ditto+lam=1,seed=0", "personalizer=local,seed=0"
    nan = math.nan
    for found, words in (
        (short("personalizer=ditto+lam=0.1"), "ditto,lam=0.1"),
        (short("personalizer=none,seed=2"), "no personalizer,seed=2"),
        (short("attack=none,aggregator=median"), "no attack,median"),
        *((short(label), label) for label in ("lam=0.1", "recipe=none", "many", "")),
        (difference("lam=0.1", "lam=1.0"), "lam=1.0 − lam=0.1"),
        (difference(local, ditto), "ditto,lam=1 − local (seed=0)"),
        (compare.number(0.93449), "0.934"),
        (compare.number(1.0), "1.000"),
        (compare.number(12345.678, "error"), "1.235e+04"),
        (compare.number(0.00123456, "error"), "0.001235"),
        (compare.number(None), "–"),
        (compare.number(nan, "error"), "–"),
        (compare.signed(0.012, "accuracy"), "+0.012"),
        (compare.signed(-0.003, "accuracy"), "−0.003"),
        (compare.signed(0, "accuracy"), "+0.000"),
        (compare.signed(None, "accuracy"), "–"),
    ):
        assert found == words


def row(seed, accuracy=0.0, **settings):
    dotted = {k.replace("__", "."): v for k, v in settings.items()}
    summary = {"personal": {"accuracy_mean": accuracy, "accuracy_deciles": [0, 1]}}
    return {"seed": seed, "train.lr": 0.1, **dotted}, summary


def test_seeds_are_gathered_by_hand():
    every = [(0, 1.0, 0.1), (0, 5.0, 1.0), (1, 2.0, 0.1), (2, 3.0, 0.1)]
    runs = [row(seed, value, personalizer__lam=lam) for seed, value, lam in every]
    first, second = by_seed(runs)
    assert first.settings == {"train.lr": 0.1, "personalizer.lam": 0.1}
    assert (first.seeds, first.runs) == ([0, 1, 2], [0, 2, 3])
    assert first.numbers == {"personal.accuracy_mean": interval([1.0, 2.0, 3.0])}
    assert second.seeds == [0]
    assert second.numbers["personal.accuracy_mean"][0] == 5.0
    assert by_seed([]) == []
    (group,) = by_seed([row(0, 1.0), row(0, 1.0), row(1, 3.0)])  # twice counts once
    assert group.runs == [0, 2]
    assert group.numbers["personal.accuracy_mean"] == interval([1.0, 3.0])


def test_only_numbers_that_all_have():
    summaries = [
        {"a": 1, "b": 2.0, "text": "x", "flag": True, "c": 1.0},
        {"a": 3, "b": None, "text": "y", "flag": True},
    ]
    (group,) = by_seed([({"seed": i}, s) for i, s in enumerate(summaries)])
    assert group.numbers.keys() == {"a", "b"}
    assert group.numbers["a"] == interval([1, 3])
    assert np.isnan(group.numbers["b"]).all()


def test_pairs_by_hand():
    grid = [row(s, personalizer__lam=lam) for lam in (0.1, 1.0, 2.0) for s in (0, 1)]
    wanted = [(0, 2), (1, 3), (0, 4), (1, 5)]
    assert pairs(grid) == [Pair("personalizer.lam", *two) for two in wanted]


def test_two_differences_are_no_pair():
    runs = [row(0, model__name="cnn", a=[1]), row(0, model__name="linear", a=[2])]
    assert pairs(runs) == []
    crossed = [*runs, row(0, model__name="cnn", a=[2])]
    assert pairs(crossed) == [Pair("a", 0, 2), Pair("model.name", 1, 2)]


def test_seeds_and_repeated_runs_are_no_pair():
    assert pairs([row(0), row(1), row(0)]) == []
    assert pairs([]) == []
    lam = [row(0, lam=1.0), row(0, lam=2.0), row(0, lam=1.0)]
    assert pairs(lam) == [Pair("lam", 0, 1)]


def test_options_go_with_the_name_of_their_part():
    ditto = {"personalizer__name": "ditto", "personalizer__lam": 1.0}
    local = {"personalizer__name": "local"}
    name = "personalizer.name"
    assert pairs([row(0, **ditto), row(0, **local)]) == [Pair(name, 0, 1)]
    # an option that both have and set differently is a second difference
    own = [row(0, **ditto, personalizer__lr=1), row(0, **local, personalizer__lr=2)]
    assert pairs(own) == []
    # and so is anything of another part
    assert pairs([row(0, **ditto), row(0, **local, model__name="cnn")]) == []
    assert pairs([row(0, **ditto), row(1, **local)]) == []
    # a part that only one of them has
    attack = {"attack__name": "scale", "attack__by": 2}
    assert pairs([row(0), row(0, **attack)]) == [Pair("attack.name", 0, 1)]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("none local ditto", [(0, 1), (0, 2), (1, 2)]),
        ("none ditto local", [(0, 1), (0, 2), (1, 2)]),
        ("local ditto apfl", [(0, 1), (0, 2)]),
        ("none ditto apfl", [(0, 1), (0, 2)]),
    ],
)
def test_training_alone_is_what_every_personalizer_is_beside(names, wanted):
    """As in the quickstart: own − shared, own − local, local − shared."""
    found = pairs([row(0, personalizer__name=each) for each in names.split()])
    assert found == [Pair("personalizer.name", *two) for two in wanted]
    crossed = [
        row(0, personalizer__name=each, aggregator__name=rule)
        for rule in ("mean", "median")
        for each in names.split()
    ]
    by_rule = [p for p in pairs(crossed) if p.setting == "personalizer.name"]
    both = wanted + [(a + 3, b + 3) for a, b in wanted]
    assert by_rule == [Pair("personalizer.name", *two) for two in both]
