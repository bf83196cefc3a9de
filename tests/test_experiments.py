"""What the pages under `experiments/` claim is what the committed files hold."""

import json
from pathlib import Path

import pytest

from troth import config

ROOT = Path(__file__).parents[1] / "experiments"
PAPER = {  # Ditto, Tables 2, 4 and 8, Fashion MNIST, clean: mean and std
    "none": (0.911, 0.08),
    "local": (0.876, 0.10),
    "ditto+lam=1.0": (0.946, 0.06),
}


@pytest.mark.parametrize("name", PAPER)
def test_fashion_ditto_is_within_two_hundredths_of_the_paper(name):
    folder = ROOT / "fashion_ditto" / "results" / f"personalizer={name}"
    summary = json.loads((folder / "summary.json").read_text())
    own, (mean, std) = summary["personal"], PAPER[name]
    assert own["accuracy_weighted"] == pytest.approx(mean, abs=0.02)
    assert own["accuracy_std"] == pytest.approx(std, abs=0.02)
    assert (summary["clients"], summary["rounds"]) == (500, 5000)
    page = (ROOT / "fashion_ditto" / "README.md").read_text()
    assert f"{own['accuracy_weighted']:.4f}"[1:] in page
    assert f"{own['accuracy_std']:.3f}"[1:] in page


@pytest.mark.parametrize("file", sorted(ROOT.glob("*/*.toml")), ids=lambda f: f.stem)
def test_every_experiment_parses(file):
    for _, tree in config.expand(config.read(file)):
        config.from_dict(tree)


@pytest.mark.parametrize("name", PAPER)
def test_results_come_from_the_committed_experiment(name):
    folder = ROOT / "fashion_ditto" / "results" / f"personalizer={name}"
    ran = config.from_dict(config.read(folder / "experiment.toml"))
    planned = config.expand(config.read(ROOT / "fashion_ditto" / "experiment.toml"))
    prints = {config.fingerprint(config.from_dict(tree)) for _, tree in planned}
    assert config.fingerprint(ran) in prints
