"""What `experiments/fluke` claims is what its files hold: two libraries, one method."""

import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest

from troth.reproduce.store import Store

pytestmark = pytest.mark.slow("reads committed results")
HOME = Path(__file__).parents[1] / "experiments" / "fluke"
PAGE = (HOME / "README.md").read_text()
WHY = PAGE.partition("## Why two of them differ as published")[2].partition("\n## ")[0]
METHODS = {"ditto": "Ditto", "apfl": "APFL", "pfedme": "pFedMe", "fedrep": "FedRep"}
SEEDS = (0, 1, 2)


def files(side):
    return [Store(HOME).records()[f"{side}, seed {seed}"] for seed in SEEDS]


def differences(version):
    """Fluke's accuracy less ours, mean over clients and then over seeds."""
    pairs = list(zip(files("ours"), files("theirs"), strict=True))
    return {
        name: mean(
            mean(theirs["accuracy"][version][name]) - mean(ours["accuracy"][name])
            for ours, theirs in pairs
        )
        for name in pairs[0][1]["accuracy"][version]
    }


def models_apart(version):
    found = [theirs["apart"][version] for theirs in files("theirs")]
    return {name: max(one[name] for one in found) for name in found[0]}


def test_the_table_is_what_the_files_hold():
    made = subprocess.run(
        [sys.executable, str(HOME / "tables.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert made in PAGE
    for name, off in differences("published").items():
        (line,) = (x for x in made.splitlines() if f"{METHODS[name]} | published" in x)
        assert f"| {off:+.4f} |" in line
    assert made.count("| published |") == len(METHODS)


def test_both_sides_had_the_same_data_and_all_clients():
    for ours, theirs in zip(files("ours"), files("theirs"), strict=True):
        assert ours["data_sha256"] == theirs["data_sha256"]
        assert theirs["accuracy"]["published"].keys() == METHODS.keys()
        every = [theirs["accuracy"]["published"], theirs["accuracy"]["repaired"]]
        for found in (ours["accuracy"], *every):
            assert all(len(clients) == 20 for clients in found.values())
            assert all(0 <= a <= 1 for clients in found.values() for a in clients)
    assert len({ours["data_sha256"] for ours in files("ours")}) == len(SEEDS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_within_two_hundredths_or_the_page_says_why_not(name):
    published = abs(differences("published")[name]) <= 0.02
    same = models_apart("published")[name] < 1e-9
    named = f"**{METHODS[name]}.**" in WHY
    if published and same:
        assert not named  # nothing to excuse
        return
    assert named
    assert abs(differences("repaired")[name]) <= 0.02
    assert models_apart("repaired")[name] < 1e-9


def test_the_settings_of_the_page_are_those_that_were_trained():
    known: dict = {}
    exec((HOME / "settings.py").read_text(), known)
    train, own = known["TRAIN"], known["METHODS"]
    said = [
        f"| rounds | {train['rounds']} |",
        f"| batch | {train['batch']}",
        f"| learning rate | {train['lr']} |",
        f"`lam = {own['ditto']['personalizer']['lam']}`",
        f"`alpha = {own['apfl']['personalizer']['alpha']}`",
        f"`lam = {own['pfedme']['personalizer']['lam']}`",
        f"`inner = {own['pfedme']['personalizer']['inner']}`",
        f"`server.lr = {own['pfedme']['server']['lr']}`",
        f"`personalizer.epochs = {own['fedrep']['personalizer']['epochs']}`",
        f"{known['EXAMPLES']:,} images",
    ]
    assert [line for line in said if line not in PAGE] == []
    assert known["SEEDS"] == SEEDS and known["TITLES"] == METHODS
