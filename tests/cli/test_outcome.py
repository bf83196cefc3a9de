from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from troth.cli import outcome, tables
from troth.config import reader

HOSTILE = np.array([False, False, True, False])


def run(own: list[float], head: str = "accuracy", **sections: Any) -> Any:
    """A finished run, as far as a comparison looks at it."""
    experiment = reader.from_dict({"personalizer": "local", **sections})
    experiment.resolved["fingerprint"] = reader.fingerprint(experiment)
    mean = float(np.array(own)[~HOSTILE].mean())
    metrics = ("mean", "std", "weighted", "worst10")
    numbers = {f"{head}_{metric}": mean for metric in metrics}
    return SimpleNamespace(
        path=Path("out") / "run",
        experiment=experiment,
        summary={"personal": numbers, "shared": numbers, "clients": 4, "seconds": 1.0},
        clients={head: np.array(own), "malicious": HOSTILE},
    )


def test_compare_over_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    found = [run([v] * 4, seed=i) for i, v in enumerate((0.25, 0.5, 0.75))]
    labels = [f"lam=1,seed={i}" for i in range(3)]
    (group,) = outcome.compare(found, labels)
    assert group["kind"] == "seeds" and group["label"] == "lam=1"
    numbers = group["numbers"]["personal.accuracy_mean"]
    assert numbers["mean"] == 0.5
    assert numbers["half_width"] == pytest.approx(4.30265273 * 0.25 / math.sqrt(3))
    tables.console().print(tables.seeds([group]))
    text = capsys.readouterr().err
    assert "0.500 ± 0.621" in text and "lam=1" in text
    assert json.loads(json.dumps(group)) == group


def test_compare_client_by_client() -> None:
    first = run([0.25, 0.5, 0.0, 0.75])
    second = run([0.5, 0.5, 1.0, 0.5], personalizer={"name": "ditto", "lam": 0.5})
    labels = ["personalizer=local", "personalizer=ditto+lam=0.5"]
    (pair,) = outcome.compare([first, second], labels)
    assert (pair["better"], pair["worse"], pair["equal"], pair["n"]) == (1, 1, 1, 3)
    assert pair["setting"] == "personalizer.name"
    assert tables.paired(pair) == (
        "ditto,lam=0.5 − local: +0.000 [−0.621, +0.621], "
        "better for 1, worse for 1, equal 1, p = 1.000"
    )


def test_lower_errors_are_better() -> None:
    first = run([4, 5, 0, 6], head="error")
    second = run([3, 4, 9, 5], head="error", aggregator="median")
    (pair,) = outcome.compare([first, second], ["a", "b"])
    assert (pair["better"], pair["worse"]) == (3, 0) and pair["mean_difference"] == -1


def test_other_data_are_other_clients() -> None:
    one = run([0.25] * 4, partition={"name": "iid", "clients": 4})
    two = run([0.5] * 4, partition={"name": "iid", "clients": 5})
    engine = run(
        [0.25] * 4, engine={"chunk": 3}, partition={"name": "iid", "clients": 4}
    )
    assert outcome.compare([one, two], ["a", "b"]) == []
    assert outcome.compare([one, engine], ["a", "b"]) == []


def test_many_pairs_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    found = [run([0.5, k / 40, 0, 1], train={"lr": k / 40}) for k in range(1, 31)]
    labels = [f"lr={k / 40}" for k in range(1, 31)]
    compared = outcome.compare(found, labels)
    assert len(compared) == 29
    tables.outcome(found, labels, compared, in_words=False)
    said = capsys.readouterr().err
    assert said.count("better for") == 20 and "… and 9 more" in said


def test_entries() -> None:
    one, again = run([0.25] * 4), run([0.25] * 4, name="other", engine={"chunk": 2})
    two = run([0.25] * 4, seed=1)
    made = outcome.entries([one, again, two])
    assert list(made[0]) == ["id", "folder", "experiment", "summary"]
    assert made[0]["id"] == made[1]["id"] != made[2]["id"]
    assert made[0]["folder"] == str(one.path) and made[0]["summary"] == one.summary
    assert reader.from_dict(made[2]["experiment"]) == two.experiment
