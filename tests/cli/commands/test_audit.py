"""`troth audit` on coloured digits, end to end."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from troth import api, files
from troth.cli.commands import audit
from troth.examine import audit as auditing
from troth.runs.load import Run

COLUMNS = (
    *("client", "examples", "accuracy", "shared_accuracy"),
    *("adv_accuracy", "adv_low", "adv_high", "transferability"),
    *("shared_adv_accuracy", "change", "change_low", "change_high"),
    *("l_trans", "angle", "ratio", "distance", "valid_gain", "confidence"),
)
CONFLICTING = (
    *("conflicting", "conflicting_accuracy"),
    *("disparity", "disparity_low", "disparity_high"),
    *("shared_disparity", "loss_disparity"),
    *("bound", "bound_gradient", "bound_sin_theta_g"),
    *("bound_gamma_min", "bound_l_trans", "bound_lam"),
)


def trained(place, **sections):
    tree = {
        "data": {"name": "colored", "base": "digits", "correlation": 0.95},
        "partition": {"name": "classes", "clients": 4, "per_client": 7},
        "train": {"rounds": 5, "epochs": 1, "batch": 32, "lr": 0.1},
        "personalizer": {"name": "finetune", "epochs": 20},
        "engine": {"how": "vmap", "chunk": 4, "device": "cpu"},
        "evaluate": {"every": 5},
    }
    (run,) = api.run(tree | sections, out=place)
    return run.path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("audit") / "run")


@pytest.fixture
def run(tuned, tmp_path):
    """A run of one's own, to be written to."""
    return Path(shutil.copytree(tuned, tmp_path / "run"))


def test_coloured_digits(troth, run):
    result = troth("audit", run, "--json", "--quiet")
    assert result.exit_code == 0 and result.stderr == "", result.output
    told = json.loads(result.stdout)
    assert told["file"] == str(run / "audit.csv")
    assert told["settings"]["adversarial"]["eps"] == 0.1
    table = files.read_csv(run / "audit.csv")
    assert (*table,) == (*COLUMNS, *CONFLICTING, "suspect", "biased")
    assert {*told["clients"]} == {*table}
    clients = Run(run).clients
    for name in ("accuracy", "shared_accuracy", "conflicting_accuracy"):
        np.testing.assert_allclose(table[name], clients[name], rtol=1e-12)
    gap = clients["accuracy"] - clients["conflicting_accuracy"]
    np.testing.assert_allclose(table["disparity"], gap, atol=1e-12)
    loss = clients["conflicting_loss"] - clients["loss"]
    np.testing.assert_allclose(table["loss_disparity"], loss, rtol=1e-4)
    assert ((table["bound_sin_theta_g"] > 0) & (table["bound_sin_theta_g"] < 1)).all()
    for column in ("suspect", "biased"):
        every = told[column]
        assert sorted(every["yes"] + every["no"] + every["open"]) == [0, 1, 2, 3]


def test_words(troth, run):
    result = troth("audit", run, "--eps", 0.3, "--limit", 0.05)
    assert result.exit_code == 0, result.output
    said = result.stdout
    assert "4/4 clients" in result.stderr and "θ" in said and "disparity" in said
    for words in ("Conflicting test data:", "Confidence:", "What would decide it:"):
        assert words in said
    assert "not a proof" in said and f"Files: {run / 'audit.csv'}" in said
    assert "nan" not in said
    table = files.read_csv(run / "audit.csv")
    assert ("Suspect: none" not in said) == (table["suspect"] == 1).any()
    assert audit._largest(np.array([0.5, np.nan, 2.0, 0.5]), 4).tolist() == [2, 0, 3, 1]
    furthest = table["client"][np.argsort(-table["distance"])][:3].astype(int)
    who = f"3 clients ({', '.join(map(str, furthest))})"
    assert f"Furthest from the shared model: {who}" in " ".join(said.split())


def test_without_conflicting_data(troth, tmp_path):
    run = trained(tmp_path / "plain", data={"name": "digits"})
    result = troth("audit", run, "--clients", 2, "--out", tmp_path / "there")
    assert result.exit_code == 0, result.output
    table = files.read_csv(tmp_path / "there" / "audit.csv")
    assert (*table,) == (*COLUMNS, "suspect") and table["client"].tolist() == [0, 1]
    assert "about 100 conflicting test examples per client" in result.stdout
    assert "Conflicting test data" not in result.stdout
    assert "Furthest" not in result.stdout  # of two there is no such thing


def test_flags_reach_pgd(troth, run):
    flags = ("--eps", 0.5, "--norm", "l2", "--iterations", 3, "--bounds", "none")
    ask = ("audit", run, "--json", "-q", "--on", "valid", "--client", 2)
    told = json.loads(troth(*ask, *flags).stdout)
    assert told["clients"]["client"] == [2]
    told = told["settings"]
    assert told["on"] == "valid" and told["confidence"] == 0.95
    wanted = {"eps": 0.5, "norm": "l2", "iterations": 3, "bounds": []}
    assert wanted.items() <= told["adversarial"].items()


def test_refusals(refused, run, tmp_path):
    for words, *arguments in (
        ("--bounds 0;1 must be numbers separated", run, "--bounds", "0;1"),
        (r"bounds = \[1.0\] is no range", run, "--bounds", "1"),
        ("clients = 'some' must be", run, "--clients", "some"),
        ("is not the folder of a run", tmp_path),
    ):
        assert re.search(words, refused("audit", *arguments))


def test_undecided_clients_need_more_examples_than_they_have():
    """Client 0: the low end is .5 below the change and the limit .25, so four times.

    The interval is not symmetric: with half its width, .26, 8 examples would do.
    """
    nan = np.nan
    table = {"client": [0, 1, 2], "examples": [7, 9, 5], "suspect": [nan, 1.0, nan]}
    table |= {"change": [0.5, 0.5, nan], "change_low": [0.0, 0.4, nan]}
    table |= {"change_high": [0.52, 0.6, nan]}
    columns = {name: np.array(values) for name, values in table.items()}
    found = auditing.Found(Path("audit.csv"), columns, {"limit": 0.25}, [])
    assert audit._needed(found) == "client 0 about 28 instead of 7"
