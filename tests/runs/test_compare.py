import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from troth.config import reader
from troth.runs import compare

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
