"""What the pages under `experiments/` claim is what the committed files hold."""

import dataclasses
import importlib.util
import json
import os
import runpy
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import troth
from troth.certificates.record import fingerprint
from troth.config import reader
from troth.federation import sampling
from troth.reproduce import rows
from troth.reproduce.entry import experiment, key
from troth.reproduce.store import Store

pytestmark = pytest.mark.slow("recomputes every page from committed results")
ROOT = Path(__file__).parents[1] / "experiments"
# Ditto, Tables 2, 4 and 8, Fashion MNIST, clean: mean and std
PAPER = [("none", 0.911, 0.08), ("local", 0.876, 0.10), ("ditto+lam=1.0", 0.946, 0.06)]


def records(folder, pattern="*"):
    """Committed results by their names."""
    return Store(ROOT / folder).find(pattern)


def readme(folder):
    return (ROOT / folder / "README.md").read_text("utf-8")


def script(folder, name="run"):
    """The module that trains a folder's runs, or another of its scripts."""
    spec = importlib.util.spec_from_file_location(folder, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def printed(monkeypatch, capsys):
    """Runs a script of a folder: what it prints."""

    def ran(folder, name):
        file, known = ROOT / folder / f"{name}.py", {*sys.modules}
        monkeypatch.syspath_prepend(file.parent)
        monkeypatch.setattr(sys, "argv", [str(file)])
        runpy.run_path(str(file), run_name="__main__")
        for module in {*sys.modules} - known:  # others have scripts of these names
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(ROOT)):
                del sys.modules[module]
        return capsys.readouterr().out

    return ran


def planned(*modules):
    """Figure and label of every run that scripts train → what it changes."""
    return {
        (cell.figure, cell.label): json.loads(json.dumps(cell.changes))
        for module in modules
        for cell in module.cells()
    }


def trained(rows, cells):
    """Figure and label of committed runs, each of them one that a script trains."""
    found = set()
    for row in rows:
        figure, label = where = row["name"].partition("/")[0], row["label"]
        assert row["changes"] == cells[where]
        assert row["name"] == f"{figure}/{label}, seed {row['seed']}"
        found.add(where)
    return found


def test_fashion_ditto_is_within_two_hundredths_of_the_paper():
    page = readme("fashion_ditto")
    for name, mean, std in PAPER:
        (run,) = records("fashion_ditto", f"personalizer={name}")
        own = run["summary"]["personal"]
        assert own["accuracy_weighted"] == pytest.approx(mean, abs=0.02)
        assert own["accuracy_std"] == pytest.approx(std, abs=0.02)
        assert (run["summary"]["clients"], run["summary"]["rounds"]) == (500, 5000)
        assert f"{own['accuracy_weighted']:.4f}"[1:] in page
        assert f"{own['accuracy_std']:.3f}"[1:] in page


def test_fashion_ditto_says_what_other_cohorts_come_to():
    for row in ("Krum, A1", "multi-Krum, A1", "Krum, A2", "global, A1"):
        said = []
        for whose in ("our", "their"):
            (found,) = records("fashion_ditto", f"draws/{row} 80%, {whose} cohorts")
            pairs = zip(*found["curve"].values(), strict=True)
            last = [value for at, value in pairs if at >= 4000]
            mean = found["summary"]["shared"]["accuracy_weighted"]
            said.append(f"{mean:.3f} ({min(last):.3f} to {max(last):.3f})")
        line = f"| {said[0]} | {said[1]} |".replace("0.", ".")
        assert line in readme("fashion_ditto"), row


def test_cifar10_central_is_as_good_as_the_page_says():
    for name, wanted in (("resnet18", 0.93), ("vgg13_bn", 0.91)):
        (run,) = records("cifar10_central", name)
        summary, page = run["summary"], readme("cifar10_central")
        found = summary["shared"]["accuracy_mean"]
        assert found >= wanted and summary["rounds"] == 40
        assert f"| {found:.4f} |" in page and f"| {summary['seconds']:.0f} |" in page
        assert f"{run['parameters']:,}" in page


def test_results_come_from_a_committed_experiment():
    """Every file parses; of whole runs, the experiment is in a file."""
    looked, off = 0, []
    for file in ROOT.glob("*/*.toml"):
        for _, tree in reader.expand(reader.read(file)):
            reader.from_dict(tree)
    for folder in ("natural", "cifar10_central", "fashion_ditto"):
        known = {
            reader.fingerprint(reader.from_dict(tree))
            for toml in (ROOT / folder).glob("*.toml")
            for _, tree in reader.expand(reader.read(toml))
        }
        whole = [run for run in records(folder) if "parameters" in run]
        ran = [reader.from_dict(run["experiment"]) for run in whole]
        off += [e for e in ran if reader.fingerprint(e) not in known]
        looked += len(whole)
    assert looked > 50 and off == []


@pytest.mark.parametrize(
    ("folder", "name", "cell", "times"),
    [
        ("natural", "tables", "| Ditto", 20),
        ("tension", "figures", "| krum |", 4),
        ("solvers", "figures", "| joint |", 2),
        ("fashion_ditto", "tables", "| Ditto λ=1.0 |", 1),
        ("fashion_ditto", "cohorts", "| global, A1 80% |", 1),
        ("fashion_ditto", "variants", "| fair, A1 80% |", 3),
        ("personalizers", "tables", "| Ditto |", 5),
    ],
)
def test_the_tables_of_a_page_are_what_the_files_hold(
    folder, name, cell, times, printed
):
    made = printed(folder, name).strip()
    assert made in readme(folder) and made.count(cell) == times


def test_fashion_ditto_says_what_the_loop_came_to():
    for label in ("A1 80%", "A3 20%", "multi-Krum, A2 80%"):
        cell = label if "Krum" in label else f"global, {label}"
        (loop,) = records("fashion_ditto", f"draws/loop/{label}")
        (other,) = records("reproduce", f"Fashion-MNIST/{cell}, seed 0~*")
        looped, curve = loop["accuracy"], other["curve"]
        ours = dict(zip(curve["round"], curve["shared_weighted"], strict=True))
        assert max(map(int, looped)) == max(ours) == 5000
        for who, found in (("their loop", looped), ("Troth", ours)):
            said = [f"{v:.3f}"[1:] for at, v in found.items() if int(at) % 500 == 0]
            assert len(said) == 10
            assert f"| {label}, {who} | {' | '.join(said)} |" in readme("fashion_ditto")


PARTS = {
    **{"t = 2": {"aggregator"}, "t = 5": {"aggregator"}},
    "noise that repeats": {"attack"},
    "t = 5, noise that repeats": {"aggregator", "attack"},
    **{"one neighbour more": {"aggregator"}, "50 epochs": {"personalizer"}},
    **{"tuned earlier": set(), "times 20": {"attack"}, "malicious first": set()},
}
SAMPLING = {"malicious first": "ditto_fixed"}


def test_fashion_ditto_changes_one_thing(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "fashion_ditto")  # repeated.py
    variants = script("fashion_ditto", "variants")
    assert [*PARTS] == [*variants.CHANGES]
    for name, changed in PARTS.items():
        keys = set()
        for plain, new in variants.changed(name):
            assert len(plain.choices) == len(new.choices)
            old, e = (experiment(cell.choices[0], 0) for cell in (plain, new))
            assert e.train.rounds in variants.CHANGES[name].rounds
            own = {"rounds": e.train.rounds, "sampling": SAMPLING.get(name, "ditto")}
            assert e.train == dataclasses.replace(old.train, **own)
            fields = {f.name for f in dataclasses.fields(e)} - {"train"}
            differ = {f for f in fields if getattr(old, f) != getattr(e, f)}
            assert differ == changed, name
            keys |= {key(choice, 0) for choice in new.choices}
        found = {one["key"] for one in records("fashion_ditto", f"{name}/*")}
        assert found and found <= keys  # what is there is what would be trained


def test_fashion_ditto_says_how_often_noise_repeats_itself():
    """By the numbers of streams, and by all that shuffles use of them."""
    repeated = script("fashion_ditto", "repeated")
    page = " ".join(readme("fashion_ditto").split())
    draw, sizes = sampling.named("ditto", 0, 10, repeated.sizes()), repeated.sizes()
    said = {name: [] for name in ("sent", "other", "sum", "truly", "true sum")}

    @cache
    def used(seed, size):
        """How far a shuffle goes in the stream of a seed."""
        stream = np.random.RandomState(seed)
        stream.shuffle(np.arange(size))
        return seed, int(stream.get_state()[1][0]), int(stream.get_state()[2])

    for many in (100, 250, 400):
        bad, sent = {*rows.authors(500, many)}, []
        for r in range(5000):
            ids = draw(r).tolist()
            hostile = [k in bad for k in ids]
            every = repeated.streams(r, sizes[ids], repeated.before(r, ids), hostile)
            sent += [one for one, own in zip(every, hostile, strict=True) if own]
        true = [
            (*used(*divmod(one // 16, 2048)), one % 16) if one < 1 << 40 else one
            for one in sent
        ]
        for names, found in ((("other", "sum"), sent), (("truly", "true sum"), true)):
            times = np.array([*Counter(found).values()])
            said[names[0]].append(f"{len(times):,}")
            said[names[1]].append(f"{(times**2).sum() / len(sent):.1f}")
        said["sent"].append(f"{len(sent):,}")
    for three in said.values():
        assert "{}, {} and {}".format(*three) in page


def test_fashion_ditto_says_who_is_hostile_in_the_last_cohorts():
    """Of the authors' cohorts and of ours, in the last three rounds."""
    sizes, page = script("fashion_ditto", "repeated").sizes(), readme("fashion_ditto")
    said = []
    for whose in (sampling.named(how, 0, 10, sizes) for how in ("ditto", "size")):
        for many in (250, 400):
            bad = {*rows.authors(500, many)}
            last = [sum(k in bad for k in whose(r).tolist()) for r in range(4997, 5000)]
            said.append("{}, {} and {}".format(*last))
    page = " ".join(page.split())
    theirs = "{} of their ten clients are malicious under A1 50%, and {} under A1 80%"
    assert theirs.format(*said[:2]) in page
    assert "in our own cohorts, {}, and {} are malicious".format(*said[2:]) in page


def test_the_loop_carries_its_orders_on():
    loop = script("fashion_ditto", "loop")
    one, other = (
        [next(b).tolist() for _ in range(4)] for b in map(loop.batches, [40] * 2)
    )
    assert one == other  # seeded by their own steps
    for epoch in (one[:2], one[2:]):  # two of 16
        assert len({*epoch[0], *epoch[1]}) == 32
    assert one[0] != one[2]
    assert len(next(loop.batches(9))) == 9  # all, where there are fewer than a batch


@pytest.mark.data
def test_what_dead_models_are_worth_is_what_the_data_say():
    if not (Path(os.environ.get("TROTH_DATA", "")) / "fashion-mnist").is_dir():
        pytest.skip("no fashion-mnist under $TROTH_DATA")
    worth = script("fashion_ditto", "constants").worth("A1 50%")
    half = [f"{mean:.3f} ({std:.2f})" for mean, std in worth]
    assert " | ".join(half).replace("0.", ".") in readme("fashion_ditto")
    assert half[0] == "0.131 (0.16)" and half[4] == "0.092 (0.13)"  # as the paper has


@pytest.mark.parametrize(
    "folder", ["tension", "solvers", "personalizers", "fashion_ditto"]
)
def test_every_run_of_a_page_is_one_that_its_script_trains(folder):
    cells, every = planned(script(folder)), records(folder)
    if folder == "solvers":
        large = [row for row in every if row["name"].startswith("full")]
        full = planned(script(folder, "full"))
        assert trained(large, full) == full.keys() and len(large) == 2 * len(full)
        every = [row for row in every if row not in large]
    base = "experiment.toml" if folder == "fashion_ditto" else "base.toml"
    usual = reader.read(ROOT / folder / base)["train"]["rounds"]
    rows = [row for row in every if "changes" in row]
    assert trained(rows, cells) == cells.keys()
    for row in rows:
        rounds = row["changes"].get("train", {}).get("rounds", usual)
        assert row["summary"]["rounds"] == rounds


def test_every_cell_of_the_personalizers_has_three_seeds():
    made, every = script("personalizers"), Store(ROOT / "personalizers").records()
    for cell in [*made.table(), *made.newcomers()]:
        name = f"{cell.figure}/{cell.label}, seed"
        assert all(f"{name} {seed}" in every for seed in range(3))


def test_the_curves_of_local_learning_are_what_the_file_holds():
    found = records("pac_curves", "curves")[0]["rows"]
    assert script("pac_curves").table(found) in readme("pac_curves")
    assert len(found) == 9 and all(one["rate"] < -0.5 for one in found)


def test_the_tables_of_the_attack_chain_are_what_the_curves_end_in():
    figures, page = script("attack_chain", "figures"), readme("attack_chain")
    for table in ("chain", "alone", "rules", "averaging", "reach", "sums"):
        assert getattr(figures, table)() in page, table


def test_every_curve_of_the_attack_chain_is_there():
    wanted = {(f.figure, f.label) for f in script("attack_chain").figures()}
    found = {tuple(one["name"].split("/", 1)) for one in records("attack_chain")}
    late = {(figure, label) for figure, label in wanted if figure == "clean"}
    assert found | late == wanted  # Figs. 14 and 15 are listed as not run without


SHORTCUTS = ROOT / "shortcuts"


@pytest.mark.parametrize(
    ("folder", "name"),
    [("shortcuts", name) for name in ("train", "tune", "run")]
    + [("certificates", name) for name in ("run", "every", "authors")],
)
def test_every_run_parses_and_has_a_name_of_its_own(folder, name):
    made, base = script(folder, name), reader.read(ROOT / folder / "base.toml")
    merged = made.merged if hasattr(made, "merged") else script(folder).common.merged
    cells = [*made.cells()]
    for cell in cells:
        reader.from_dict(merged(base, cell.changes))
    assert len({(cell.figure, cell.label) for cell in cells}) == len(cells)
    assert cells


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


def test_what_was_chosen_is_what_validation_data_say():
    decide = script("shortcuts", "decide")
    held = json.loads((SHORTCUTS / "choice.json").read_text())
    every = {problem: decide.chosen(problem) for problem in decide.PROBLEMS}
    found = {problem: options for problem, options in every.items() if options}
    assert held == json.loads(json.dumps(found))
    for run in records("shortcuts", "*tuning*/*"):
        assert "tests" not in run["summary"]  # never looked at


def test_the_page_of_the_shortcuts_is_what_the_files_hold():
    assert script("shortcuts", "tables").tables() in readme("shortcuts")
    scripts = [script("shortcuts", n) for n in ("train", "tune", "run", "inputs")]
    cells = planned(*scripts)
    rows = (row for row in records("shortcuts") if row["name"][:6] != "along/")
    tried = {w for w in cells if w[0] == "tuning" and "transfer" in w[1]}
    later = {w for w in cells if w[0] == "inputs"}  # the page says: not trained yet
    assert trained(rows, cells) >= cells.keys() - tried - later


CERTIFICATES = ROOT / "certificates"


def test_whoever_begins_with_a_shared_model_comes_after_the_run_that_trains_it():
    """And it trains for what that one does: only the personalizer is another."""
    made, trained = [script("certificates", n) for n in ("run", "authors")], {}
    for cell in [cell for one in made for cell in one.cells()]:
        changes = dict(cell.changes)
        name, own = changes.pop("name", None), changes.pop("personalizer")
        if changes.pop("availability", None):
            assert trained[name] == changes and own["name"] == "finetune"
        elif name:
            assert name not in trained
            trained[name] = changes
    assert len(trained) == 19


def test_fine_tuning_from_what_ditto_leaves_is_the_run_itself(tmp_path, monkeypatch):
    """Ditto's run trains the same w, stacked with others, too; no round moves it."""
    made, models = script("certificates"), {}
    monkeypatch.setattr(made, "MODELS", tmp_path / "models")
    (tmp_path / "base.toml").write_text(
        '[partition]\nname = "iid"\nclients = 5\nsplit = [0.7, 0.1, 0.2]\n'
        "[train]\nrounds = 2\nbatch = 16\n"
    )
    small = {"data": "digits", "model": {"name": "linear"}}
    small |= {"partition": {"clients": 5}, "engine": {"how": "vmap", "chunk": 5}}
    cells = [
        cell._replace(changes=cell.changes | small)
        for cell in made.hostile()
        if cell.label.startswith(("noise, clean, multi", "noise, A3, multi"))
    ]
    for cell in [cell for cell in cells if "availability" in cell.changes]:
        changes = {k: v for k, v in cell.changes.items() if k != "availability"}
        cells.append(cell._replace(figure="whole", changes=changes))  # trains as well

    def look(run):
        e = run.experiment
        own = [run.model(k).state_dict() for k in range(5)]
        which = e.personalizer.name, bool(e.availability.deadline), e.attack.name
        models[which] = [run.shared().state_dict(), *own]
        if e.personalizer.name == "ditto":
            made.left(run)
        return {}

    for figure, only in (("hostile", "ditto"), ("hostile", "finetune"), ("whole", "")):
        flags = [figure, "--only", only, "--device", "cpu", "--together", "2"]
        monkeypatch.setattr("sys.argv", ["x", *flags, "--out", str(tmp_path / "out")])
        base = tmp_path / "base.toml"
        made.main("", base, cells, look, seeds=1, given_seed=made.started)
    assert len(models) == 6
    for attack in ("none", "model_replacement"):
        ditto = models["ditto", False, attack]
        tuned, again = (models["finetune", s, attack] for s in (False, True))
        for name, w in ditto[0].items():
            assert torch.equal(w, again[0][name])
            assert torch.allclose(w, tuned[0][name], atol=1e-6)
        for a, b, d in zip(again[1:], tuned[1:], ditto[1:], strict=True):
            last = next(reversed(a))
            assert torch.allclose(a[last], b[last], atol=1e-5)
            assert not torch.allclose(a[last], d[last], atol=1e-3)


def test_the_page_of_the_certificates_is_what_the_files_hold():
    made = script("certificates", "figures")
    cells = planned(*(script("certificates", n) for n in ("run", "every", "authors")))
    assert made.tables() in readme("certificates")
    assert {figure for figure, _ in cells} == {*made.FIGURES}
    for figure in made.FIGURES:
        trained(records("certificates", f"{figure}/*"), cells)


def test_a_client_s_score_and_its_noise_follow_from_its_curve():
    """The score of an image is the share of radii at which it is certified."""
    made = script("certificates", "found")
    random = np.random.default_rng(0)
    held = random.integers(0, 6, (3, 40))  # of each image: at so many of 5 radii
    curves = (held[..., None] > np.arange(5)).mean(axis=1)
    each = [{"examples": 40, "accuracy": curve.tolist()} for curve in curves]
    run = {"certified": {"models": {"personal": {"clients": dict(enumerate(each))}}}}
    mean, noise = made.Line(run, "personal").scores
    assert mean == pytest.approx(held.mean(axis=1) / 5)
    assert noise == pytest.approx((held / 5).var(axis=1, ddof=1) / 40)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(0.2, 0.01, True), (0.011, 0.01, False), (0.01, 0.2, False), (0.06, 0.05, None)],
)
def test_spreads_that_differ_by_little_count_as_equal(one, other, expected):
    """If the interval excludes a large difference, and not if it is wide."""
    made, far = script("certificates", "found"), np.linspace(-1, 1, 20)

    def line(spread, order):
        each = [{"examples": 10**6, "accuracy": [0.5 + spread * z]} for z in far[order]]
        models = {"personal": {"clients": dict(enumerate(each))}}
        return made.Line({"certified": {"models": models}}, "personal")

    orders = np.arange(20), np.roll(np.arange(20), 7)
    assert line(one, orders[0]).further(line(other, orders[1])) is expected


def test_what_notes_say_of_certificates_is_what_the_findings_are():
    made = script("certificates", "findings")
    notes = json.loads((ROOT / "reproduce" / "notes.json").read_text("utf-8"))
    spread = {case.label: case.holds for case in made.spread()}
    every = {(n, change) for n in (4, 10, 20) for change in made.CHANGES[1:]}
    every.add((10, "noise"))
    assert not any(spread[f"MNIST, {change}, {n}"] for n, change in every)
    assert None not in {spread[f"MNIST, {change}, {n}"] for n, change in every}
    assert spread["CIFAR-10, rotation, 10"] is None
    for figure in (8, 9):
        assert "does not hold" in notes[f"certified/figure{figure}"]
    mixtures = {case.label: case.holds for case in made.better_authors()}
    assert sum(mixtures.values()) == 2 and len(mixtures) == 12
    assert not any(holds for label, holds in mixtures.items() if "λ=0.1" in label)
    assert "holds in part" in notes["certified/figure10"]
    level = {case.label: case for case in made.level_authors()}
    before = {case.label.removeprefix("MNIST, "): case for case in made.level()}
    for change, case in before.items():
        small, large = (
            float(level[f"{change}, lr={rate}"].said) for rate in (0.001, 0.01)
        )
        assert small < large < -made.NONE and float(case.said) < large
    assert "holds in part" in notes["certified/figure4"]


def test_the_small_model_is_the_one_that_machines_counted_with():
    made = script("certificates", "machines")
    classify = made.opened(made.FILE, made.NETWORK, (1, 28, 28))
    assert made.FILE.stat().st_size < 300_000
    for said in records("certificates", "machines/*"):
        assert said["parameters"] == fingerprint(classify)
        assert len(said["certificates"]) == 4
        for counted in said["certificates"].values():
            assert len(counted["votes"]) == said["images"] == made.IMAGES


def test_machines_are_compared_image_by_image():
    made = script("certificates", "machines")
    one = {"label": [1, 2], "votes": [90, 60], "radius": [0.5, 0.25]}
    other = {"label": [1, -1], "votes": [90, 57], "radius": [0.5, 0.0]}
    same = {"images": 2, "n": 100, "sigma": {}, "parameters": "x"}
    files = [same | {"certificates": {"pixel": said}} for said in (one, other)]
    assert made.compared(*files).splitlines()[-1] == (
        "| pixel | 2 | 100 | 1 | 3 | 15000.0 | 1 | 2.5e-01 |"
    )
    with pytest.raises(SystemExit, match="parameters is x"):
        made.compared(files[0], files[1] | {"parameters": "y"})
