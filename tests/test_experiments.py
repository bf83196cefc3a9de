"""What the pages under `experiments/` claim is what the committed files hold."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import troth
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


@pytest.mark.parametrize(("name", "wanted"), [("resnet18", 0.93), ("vgg13_bn", 0.91)])
def test_cifar10_central_is_as_good_as_the_page_says(name, wanted):
    folder = ROOT / "cifar10_central" / "results" / name
    summary = json.loads((folder / "summary.json").read_text())
    found = summary["shared"]["accuracy_mean"]
    assert found >= wanted and summary["rounds"] == 40
    page = (ROOT / "cifar10_central" / "README.md").read_text()
    assert f"| {found:.4f} |" in page and f"| {summary['seconds']:.0f} |" in page
    ran = config.read(folder / "experiment.toml")
    assert f"{ran['resolved']['parameters']:,}" in page


def test_the_tables_of_the_natural_federations_are_what_the_files_hold():
    script = ROOT / "natural" / "tables.py"
    made = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert made in (ROOT / "natural" / "README.md").read_text()
    assert made.count("| Ditto") == 20


RESULTS = sorted(ROOT.glob("*/results/**/experiment.toml"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda f: f.parent.name)
def test_results_come_from_a_committed_experiment(file):
    ran = config.from_dict(config.read(file))
    home = ROOT / file.relative_to(ROOT).parts[0]
    planned = [
        config.from_dict(tree)
        for toml in home.glob("*.toml")
        for _, tree in config.expand(config.read(toml))
    ]
    assert config.fingerprint(ran) in {config.fingerprint(e) for e in planned}


@pytest.mark.parametrize(
    ("folder", "script", "cell", "times"),
    [
        ("tension", "figures", "| krum |", 4),
        ("solvers", "figures", "| joint |", 1),
        ("fashion_ditto", "tables", "| Ditto λ=1.0 |", 1),
        ("personalizers", "tables", "| Ditto |", 5),
    ],
)
def test_the_tables_of_a_page_are_what_the_files_hold(folder, script, cell, times):
    made = subprocess.run(
        [sys.executable, str(ROOT / folder / f"{script}.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert made in (ROOT / folder / "README.md").read_text()
    assert made.count(cell) == times


def script(folder: str, name: str = "run"):
    """The module that trains a folder's runs, or another of its scripts."""
    spec = importlib.util.spec_from_file_location(folder, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "base"),
    [
        ("tension", "base.toml"),
        ("solvers", "base.toml"),
        ("fashion_ditto", "experiment.toml"),
        ("personalizers", "base.toml"),
    ],
)
def test_every_run_of_a_page_is_one_that_its_script_trains(folder, base):
    made = script(folder)
    planned = {
        (cell.figure, cell.label): json.loads(json.dumps(cell.changes))
        for cell in made.cells()
    }
    tree = config.read(ROOT / folder / base)
    found = {}
    for file in sorted((ROOT / folder / "results").glob("*/*.json")):
        if file.name == "summary.json":
            continue
        row = json.loads(file.read_text())
        where = file.parent.name, row["label"]
        assert row["changes"] == planned[where]
        assert file.name == f"{row['label']}, seed {row['seed']}.json"
        rounds = row["changes"].get("train", {}).get("rounds", tree["train"]["rounds"])
        assert row["summary"]["rounds"] == rounds
        found[where] = found.get(where, 0) + 1
    assert found.keys() <= planned.keys()
    assert found.keys() == planned.keys()


def test_every_cell_of_the_personalizers_has_three_seeds():
    for cell in [*(made := script("personalizers")).table(), *made.newcomers()]:
        folder = ROOT / "personalizers" / "results" / cell.figure
        assert len(list(folder.glob(f"{cell.label}, seed ?.json"))) == 3


def test_the_curves_of_local_learning_are_what_the_file_holds():
    folder = ROOT / "pac_curves"
    found = json.loads((folder / "results" / "curves.json").read_text())
    assert script("pac_curves").table(found) in (folder / "README.md").read_text()
    assert len(found) == 9 and all(one["rate"] < -0.5 for one in found)


@pytest.mark.parametrize(
    "table", ["chain", "alone", "rules", "averaging", "reach", "sums"]
)
def test_the_tables_of_the_attack_chain_are_what_the_curves_end_in(table):
    made = getattr(script("attack_chain", "figures"), table)()
    assert made in (ROOT / "attack_chain" / "README.md").read_text("utf-8")


def test_every_curve_of_the_attack_chain_is_there():
    planned = {(f.figure, f.label) for f in script("attack_chain").figures()}
    files = (ROOT / "attack_chain" / "results").glob("*/*.json")
    found = {(f.parent.name, f.stem) for f in files}
    late = {(figure, label) for figure, label in planned if figure == "clean"}
    assert found | late == planned  # Figs. 14 and 15 are listed as not run without


SHORTCUTS = ROOT / "shortcuts"


@pytest.mark.parametrize("name", ["train", "tune", "run"])
def test_every_run_of_the_shortcuts_parses(name):
    made = script("shortcuts", name)
    base = config.read(SHORTCUTS / "base.toml")
    every = list(made.cells())
    for cell in every:
        config.from_dict(made.merged(base, cell.changes))
    assert len({(cell.figure, cell.label) for cell in every}) == len(every)
    assert every or not (SHORTCUTS / "choice.json").exists()


def test_cells_that_are_trained_together_leave_the_same_files(tmp_path, monkeypatch):
    made = script("shortcuts", "train")
    (tmp_path / "base.toml").write_text(
        'data = "digits"\nmodel = "linear"\n[partition]\nname = "iid"\nclients = 6\n'
        "[train]\nrounds = 2\ncohort = 3\nsteps = 2\n"
        '[engine]\nhow = "vmap"\nchunk = 3\n'
    )
    every = [made.Cell("a", f"{f}", {"adversary": {"fraction": f}}) for f in (0.0, 0.4)]
    every += [made.Cell("b", "ditto", {"personalizer": "ditto"})]
    for out, most in (("one", "1"), ("all", "4")):
        flags = ["--seeds", "2", "--device", "cpu", "--together", most]
        monkeypatch.setattr("sys.argv", ["x", *flags, "--out", str(tmp_path / out)])
        made.main("", tmp_path / "base.toml", every)
    files = [f.relative_to(tmp_path / "one") for f in tmp_path.glob("one/*/*.json")]
    assert len(files) == 6
    for file in files:
        one, all_ = (
            json.loads((tmp_path / o / file).read_text()) for o in ("one", "all")
        )
        for said in (one, all_):
            said["summary"] = said["summary"].keys()
        assert one["accuracy"] == pytest.approx(all_.pop("accuracy"), abs=0.01)
        assert {k: one[k] for k in all_ if "accuracy" not in k} == {
            k: v for k, v in all_.items() if "accuracy" not in k
        }


def test_personalizing_a_saved_model_is_what_the_run_itself_does(tmp_path):
    """Rounds with a learning rate of 0 leave w as it is; their number keys the rest."""
    problems = script("shortcuts", "problems")
    sections = {
        "data": {"name": "colored", "base": "digits"},
        "partition": {"name": "classes", "clients": 10, "split": [0.72, 0.08, 0.2]},
        "model": {"name": "mlp", "widths": [8]},
        "train": {"rounds": 2, "cohort": 4, "lr": 0.01, "optimizer": "adam"},
        "engine": {"how": "vmap", "chunk": 10, "device": "cpu"},
    }
    own = {"name": "finetune", "steps": 5, "lr": 0.001}
    whole = troth.run({**sections, "personalizer": own}, out=tmp_path / "whole")[0]
    file = str(tmp_path / "whole" / "shared.safetensors")
    runs = []
    for seed in (0, 1):
        changes = problems.again({**sections, "personalizer": {}}, own, seed)
        tree = problems.merged(changes, {"model": {"weights": file}})
        runs.append(troth.run(tree, out=tmp_path / f"again{seed}")[0])
    models = [torch.cat([*run.model(3).parameters()][:1]) for run in (whole, *runs)]
    assert torch.equal(models[0], models[2])  # as many rounds
    assert not torch.equal(models[0], models[1])  # another seed of personalization
    for run in runs:
        assert run.summary["shared"] == whole.summary["shared"]


@pytest.mark.skipif(
    not (SHORTCUTS / "choice.json").exists(), reason="nothing is chosen yet"
)
def test_what_was_chosen_is_what_validation_data_say():
    decide = script("shortcuts", "decide")
    held = json.loads((SHORTCUTS / "choice.json").read_text())
    every = {problem: decide.chosen(problem) for problem in decide.PROBLEMS}
    found = {problem: options for problem, options in every.items() if options}
    assert held == json.loads(json.dumps(found))
    for file in (SHORTCUTS / "results").glob("*tuning*/*.json"):
        assert "tests" not in json.loads(file.read_text())["summary"]  # never looked at


@pytest.mark.skipif(
    not (SHORTCUTS / "results" / "table").exists(), reason="nothing is trained yet"
)
def test_the_page_of_the_shortcuts_is_what_the_files_hold():
    made = script("shortcuts", "tables").tables()
    assert made in (SHORTCUTS / "README.md").read_text()
    planned = {
        (cell.figure, cell.label): json.loads(json.dumps(cell.changes))
        for name in ("train", "tune", "run")
        for cell in script("shortcuts", name).cells()
    }
    found = set()
    for file in (SHORTCUTS / "results").glob("*/*.json"):
        if file.parent.name == "along":
            continue
        row = json.loads(file.read_text())
        where = file.parent.name, row["label"]
        assert row["changes"] == planned[where]
        assert file.name == f"{row['label']}, seed {row['seed']}.json"
        found.add(where)
    tried = {where for where in planned if "transfer" in where[1]}
    assert found >= planned.keys() - {where for where in tried if where[0] == "tuning"}
