import csv
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from troth.config import reader
from troth.runs import compare, table
from troth.runs.load import Run
from troth.types import Refusal


def run(mean, valid=None, head="accuracy", **sections):
    """A finished run, as far as a table reads it."""
    experiment = reader.from_dict({"personalizer": "local", **sections})
    personal = {f"{head}_{m}": mean for m in ("mean", "std", "worst10", "weighted")}
    summary = {"personal": personal, "shared": {f"{head}_mean": 0.5}}
    if valid is not None:
        summary["valid"] = {"personal": {f"{head}_mean": valid}}
    return SimpleNamespace(path=Path("x"), experiment=experiment, summary=summary)


def grid(seeds=(0, 1, 2)):
    """2 personalizers × 2 attacks; ditto is .1 better without attack, else worse."""
    runs, labels = [], []
    means = {("local", "none"): 0.7, ("local", "alie"): 0.7}
    means |= {("ditto", "none"): 0.8, ("ditto", "alie"): 0.6}
    for (own, attack), seed in itertools.product(means, seeds):
        mean = means[own, attack] + seed / 100
        more = {"adversary": {"fraction": 0.2}} if attack != "none" else {}
        parts = {"personalizer": own, "attack": attack, "seed": seed}
        runs.append(run(mean, mean - 0.05, **parts, **more))
        labels.append(",".join(f"{k}={v}" for k, v in parts.items()))
    return runs, labels


def test_a_pivot_pools_seeds_and_has_attacks_in_its_columns():
    made = table.pivot(table.methods(*grid()))
    assert made.heads == ["personalizer", "no attack", "alie"] and made.sides == 1
    half = 4.302652729911275 * 0.01 / np.sqrt(3)
    assert made.rows == [
        ["local", f"0.710 ± {half:.3f}", f"0.710 ± {half:.3f}"],
        ["ditto", f"0.810 ± {half:.3f}", f"0.610 ± {half:.3f}"],
    ]
    alone = table.pivot(table.methods(*grid(seeds=[0])))
    assert alone.rows == [["local", "0.700", "0.700"], ["ditto", "0.800", "0.600"]]


def test_no_pivot_of_one_axis_and_gaps_in_an_incomplete_grid():
    runs, labels = grid()
    assert table.pivot(table.methods(runs[:3], labels[:3])) is None
    assert table.pivot(table.methods(runs[:1], ["quickstart"])) is None
    assert table.pivot([]) is None
    made = table.pivot(table.methods(runs[:9], labels[:9]))
    assert made.rows[1][2] == "–"


def test_best_by_validation_under_each_attack():
    """Nobody chooses the attack; an error is better if it is lower."""
    lines = table.choice(table.methods(*grid(seeds=[0])))
    assert lines == [
        "Best by validation under no attack: ditto (accuracy 0.750 on validation "
        "data, 0.800 on test data)",
        "Best by validation under alie: local (accuracy 0.650 on validation data, "
        "0.700 on test data)",
    ]
    lam = [run(v, v, head="error", train={"lr": lr}) for v, lr in ((2, 0.1), (1, 0.2))]
    (line,) = table.choice(table.methods(lam, ["lr=0.1", "lr=0.2"]))
    assert line.startswith("Best by validation: lr=0.2 (error 1 on")
    assert table.choice(table.methods([run(0.5)], ["a"])) == []


def test_results_on_other_data_are_not_compared():
    """Such as those of several folders, which `troth show` prints together."""
    mixed = [run(0.8, 0.8), run(0.9, 0.9, partition="natural", data="femnist")]
    assert table.choice(table.methods(mixed, ["a", "b"])) == []
    mixed = [run(0.8, 0.8), run(0.1, 0.1, head="error", personalizer="ditto")]
    assert table.choice(table.methods(mixed, ["a", "b"])) == []


def test_files(tmp_path):
    file = table.write(*grid(), tmp_path / "t.csv")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert len(rows) == 4 and rows[2]["personalizer"] == "ditto"
    assert (rows[2]["attack"], rows[2]["seeds"]) == ("none", "3")
    assert float(rows[2]["mean"]) == pytest.approx(0.81)
    assert float(rows[2]["valid mean"]) == pytest.approx(0.76)
    half = 4.302652729911275 * 0.01 / np.sqrt(3)
    assert float(rows[2]["mean half width"]) == pytest.approx(half)
    text = table.write(*grid([0]), tmp_path / "t.md").read_text()
    assert text.splitlines() == [
        "| personalizer | no attack | alie |",
        "| --- | --- | --- |",
        "| local | 0.700 | 0.700 |",
        "| ditto | 0.800 | 0.600 |",
    ]
    latex = table.write(*grid(), tmp_path / "t.tex").read_text()
    assert r"\begin{tabular}{lrr}" in latex and r"0.810 $\pm$ 0.025 & " in latex
    odd = run(0.5), run(0.6, train={"lr": 0.5})
    flat = table.write(odd, ["50%_a", "b"], tmp_path / "f.tex").read_text()
    assert r"50\%\_a & 1 & 0.500 & -- & 0.500" in flat


@pytest.mark.parametrize(
    ("runs", "name", "words"),
    [
        (1, "t.xlsx", "must end in .csv, .md or .tex"),
        (0, "t.csv", "there is no finished run"),
        (1, "file/t.csv", "give another file with --table"),
    ],
)
def test_refusals(tmp_path, runs, name, words):
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match=words):
        table.write([run(0.5)] * runs, ["a"] * runs, tmp_path / name)


def test_the_attack_names_what_malicious_clients_do_to_data(told, tmp_path):
    """A run with poisoned data and honest messages is not called "no attack"."""
    bad = [False, True, True]
    runs, labels = [], []
    for attack in ("none", "alie"):
        for personalizer in ("local", "ditto"):
            label = f"personalizer={personalizer},attack={attack}"
            path = told(
                tmp_path / label,
                [0.5, 0.4, 0.3],
                personalizer=personalizer,
                attack=attack,
                corruption="auto",
                hostile=bad,
            )
            runs.append(Run(path))
            labels.append(label)
    pooled = table.methods(runs, labels)
    made = table.pivot(pooled)
    assert made is not None
    assert made.heads == ["personalizer", "wrong labels", "alie + wrong labels"]
    found = compare.compare(runs, labels)
    assert "alie + wrong labels − wrong labels (local)" in [f["label"] for f in found]
    assert compare.full(runs[0], "run") == "run"
    row = table.write(runs, labels, tmp_path / "t.csv").read_text().splitlines()[1]
    assert row.startswith("local,none,")  # values of settings, for programs


def test_further_scores_are_columns_of_the_csv_file():
    found = run(0.5, evaluate={"scores": ["recall"]})
    more = {"recall_0_mean": 0.25, "recall_0_worst10": 0.5, "recall_1_mean": 0.75}
    found.summary["personal"] |= more
    rows = csv.DictReader(table.text([found], ["a"], "csv").splitlines())
    [row] = rows
    assert row["recall_0 mean"] == "0.25" and row["recall_1 mean"] == "0.75"
    assert row["mean"] == "0.5" and "recall_0_worst10 mean" not in row
