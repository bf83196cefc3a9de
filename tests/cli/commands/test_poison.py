"""`troth poison`."""

import json
import math

import numpy as np
import pytest

from troth import files
from troth.poison import chain

EXPERIMENT = """
aggregator = "sum"
[data]
name = "digits"
[partition]
name = "iid"
clients = 3
[model]
name = "linear"
[train]
rounds = 8
batch = 0
steps = 2
lr = 0.05
[personalizer]
name = "coupled"
optimizer = "adam"
[server]
name = "sgd"
lr = 0.1
[adversary]
count = 1
[engine]
how = "vmap"
chunk = 3
device = "cpu"
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("poison") / "e.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.mark.slow("trains every stage")
def test_the_whole_chain(troth, file, tmp_path):
    out = tmp_path / "out"
    result = troth("poison", file, "--out", out, "--examples", 80, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["folder"] == str(out)
    stages = [row["stage"] for row in said["stages"]]
    assert stages == ["none", "gradient", "model", "data"]
    last = said["stages"][-1]
    assert last["examples"] == 80 and last["aimed"] > said["stages"][0]["aimed"]
    for word in (
        "target labels",
        "largest norm",
        "smaller total weight than",
        "from_file",
    ):
        assert word in result.stderr
    with np.load(out / "poison.npz") as poison:
        assert len(poison["x"]) == 80
    assert json.loads((out / "stages.json").read_text()) == said
    head, *rows = (out / "stages.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == stages
    read = dict(zip(head.split(","), rows[-1].split(","), strict=True))
    assert float(read["aimed"]) == last["aimed"] and read["examples"] == "80"
    assert f"Files: {out / 'stages.csv'}, {out / 'stages.json'}," in result.stderr


def test_a_stage(troth, file, tmp_path):
    given = ("--stage", "gradient", "--out", tmp_path / "out", "--quiet")
    result = troth("poison", file, *given)
    assert result.exit_code == 0, result.output
    assert result.stderr == "" and "Stage gradient brings" in result.stdout
    assert "poisoned" not in result.stdout.lower()
    again = troth("poison", file, *given)  # nothing is trained twice
    assert again.exit_code == 0 and again.stdout == result.stdout


def test_refusals(troth, file, tmp_path):
    """By the words of test_chain.py and test_goal.py, on one line or two."""
    for given, words in (
        (("--weight", "much"), "weight = 'much'"),
        (("--target", "nowhere.npy"), "there is no target 'nowhere.npy'"),
        (("--set", "personalizer.name=local"), "needs personalizer 'coupled'"),
    ):
        result = troth("poison", file, "--out", tmp_path / "out", *given)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split())
        assert len(result.stderr.strip().splitlines()) <= 2


def test_what_is_said_of_a_failed_attack(troth, tmp_path):
    """By hand: further away than at the start, and with too few examples."""
    rows = [chain.Reached("none", 2.0, 2.0, 0.9, 0.1, 0.8)]
    rows.append(chain.Reached("data", 2.0, 37.1, 0.5, 0.1, 0.8, 9, enough=math.inf))
    (tmp_path / "chain.json").write_text("{}")
    told = json.dumps(files.plain(chain.told(tmp_path, rows)))
    (tmp_path / "stages.json").write_text(told)
    result = troth("show", tmp_path)
    assert result.exit_code == 0, result.output
    assert "does not bring the shared model nearer" in result.stdout
    assert "18.6 times that of the first model" in result.stdout
    assert "9 poisoned examples are too few to hold" in result.stdout
    assert "%" in result.stdout and "-1755" not in result.stdout
    again = json.loads(troth("show", tmp_path, "--json").stdout)
    assert [row["stage"] for row in again["stages"]] == ["none", "data"]
