"""Every table and figure that the papers have, and the cells that make them."""

import importlib.util
import re
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from troth.reproduce import listing, papers
from troth.reproduce.entry import experiment
from troth.types import Refusal

ROOT = Path(__file__).parents[2] / "experiments"
ENTRIES = listing.entries()
WANTED = {
    *(f"ditto/table{n}" for n in range(2, 12)),
    *(f"ditto/figure{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9)),
    *(f"fmtl/table{n}" for n in (1, 3, 4, 5, 6, 7)),
    *(f"fmtl/figure{n}" for n in range(1, 5)),
    "spurious/table1",
    *(f"spurious/figure{n}" for n in range(4, 9)),
    *(f"certified/figure{n}" for n in range(1, 11)),
    "equivalence/table1",
    *(f"equivalence/figure{n}" for n in range(1, 21)),
}


def cells(name):
    return ENTRIES[name].everywhere()


def parts(paper, name):
    return papers.table(paper, name).parts


def test_all_of_them_are_there():
    assert {*ENTRIES} == WANTED
    for form in ("\u00a0ditto/table8 ", "ｄitto/table８"):
        assert listing.find(form) == ENTRIES["ditto/table8"]


NEAREST = {
    "ditto/tabel8": "ditto/table8",
    "Ditto/TABLE8 ": "the nearest are ditto/table8",
    "fmtl": "the nearest are fmtl/table1, fmtl/table3",
    "resnet": "troth reproduce lists all of them",
    "ditto/figure4": "the nearest are ditto/figure3, ditto/figure5; troth",
    "ditto/figure99": "the nearest are ditto/figure9, ditto/figure8; troth",
    "spurious/table7": "the nearest are spurious/table1; troth",
    "ditto/": f"{', '.join(n for n in ENTRIES if n.startswith('ditto/'))}; troth",
}


def test_unknown_targets_name_the_nearest():
    for name, words in NEAREST.items():
        with pytest.raises(Refusal, match=re.escape(words)):
            listing.find(name)


def test_every_entry_can_be_run():
    for entry in ENTRIES.values():
        assert entry.title and "{" not in entry.note
        assert bool(entry.cells) != bool(entry.script)
        if entry.script:
            assert (ROOT / entry.script[0]).exists()
        assert entry.settings or entry.data or entry.name.startswith("ditto/figure")


def test_cells_are_experiments_with_names_of_their_own():
    for entry in ENTRIES.values():
        for found in (entry.everywhere(), entry.at("small") if entry.cells else []):
            assert len({cell.label for cell in found}) == len(found)
            for cell in found[:: max(1, len(found) // 12)]:
                for tree in cell.choices:
                    e, several = experiment(tree, 0), len(cell.choices) > 1
                    split = e.partition.split  # the authors have no validation data
                    assert not several or split == "given" or split[1] > 0, cell.label


def test_a_whole_table_has_a_cell_for_every_number():
    """But for what the entry's note says is not run."""
    for entry in (e for e in ENTRIES.values() if e.cells and "table" in e.name):
        assert entry.printed is not None
        there = {(*cell.printed, cell.column) for cell in entry.everywhere()}
        every = {
            (part.data, row, column)
            for part in entry.printed.parts
            for row, values in part.rows.items()
            for column, value in zip(part.columns, values, strict=True)
            if value is not None
        }
        assert there <= every
        assert all("CelebA" in column for _, _, column in every - there)


ROWS = {
    *("global", "local", "fair", "median", "Krum", "multi-Krum", "clipping"),
    *("k-norm", "k-loss", "FedMGDA+", "finetuning"),
    *("Ditto, λ=0.1", "Ditto, λ=1", "Ditto, λ=2"),
}
COLUMNS = [
    "clean",
    *(f"A{k} {share}%" for k in (1, 2) for share in (20, 50, 80)),
    *(f"A3 {share}%" for share in (10, 20, 50)),
]
RULES = ("median", "Krum", "multi-Krum", "clipping", "k-norm", "k-loss")


def test_table_8_is_every_method_under_every_threat():
    found = cells("ditto/table8")
    assert len(found) == 140
    assert {(cell.row, cell.column) for cell in found} == {*product(ROWS, COLUMNS)}
    assert all(ENTRIES["ditto/table8"].theirs(cell) for cell in found)
    for cell in found:  # the authors' cohorts and malicious clients
        wanted = None
        if cell.column != "clean":
            number = int(500 * int(cell.column[3:-1]) / 100)
            drawn = np.random.RandomState(1234567).choice(500, number, replace=False)
            wanted = sorted(drawn.tolist())
        for tree in cell.choices:
            assert tree["train"]["sampling"] == "ditto"
            assert wanted is None or tree["adversary"]["clients"] == wanted


OWN = [c for c in cells("ditto/table2") if (c.part, c.row) == ("Fashion", "Ditto")]


def test_ditto_of_table_2_chooses_its_own_lambda():
    assert [cell.column for cell in OWN] == COLUMNS
    for cell in OWN:
        (tree,) = cell.choices
        part = tree["personalizer"]
        assert (part["name"], part["lam"], part["choose"]) == ("ditto", "auto", "paper")
        strong = cell.column.startswith("A3") or cell.column.endswith("80%")
        assert part["fallback"] == (0.1 if strong else 1.0)


def strongest(rules, *parts, after=0):
    """Three rules with the largest mean accuracy of the paper's own numbers."""
    scores = {
        rule: mean(v.mean for part in parts for v in part.rows[rule][after:] if v)
        for rule in rules
    }
    return sorted(rules, key=lambda rule: -scores[rule])[:3]


def test_figures_show_cells_of_table_8_and_ditto_of_table_2():
    whole = {cell.label: cell for cell in cells("ditto/table8")}
    own = {cell.column: cell for cell in OWN}
    for name, many in (("ditto/figure3", 60), ("ditto/figure6", 24)):
        found, entry = cells(name), ENTRIES[name]
        assert len(found) == many and all(map(entry.theirs, found))
        for cell in found:
            if cell.row == "Ditto":  # whose clients choose λ
                other = own[cell.column]
                assert cell.choices == other.choices and cell.part == "Fashion MNIST"
                assert entry.theirs(cell) == ENTRIES["ditto/table2"].theirs(other)
            else:
                assert whole[cell.label] == cell
    rules = strongest((*RULES, "FedMGDA+"), *parts("ditto", "table8"), after=1)
    shown = {cell.row for cell in cells("ditto/figure3")}
    assert shown == {"global", "local", "Ditto", *rules}
    assert {cell.column for cell in cells("ditto/figure6")} == {*COLUMNS[1:4]}
    assert {c.row for c in cells("ditto/figure6")} == {"global", "Ditto", *RULES}


def test_figure_5_is_term_at_three_temperatures():
    found = cells("ditto/figure5")
    assert len(found) == 16 and {cell.column for cell in found} == {*COLUMNS[:4]}
    rules = {f"TERM, t={t}": {"name": "term", "t": float(t)} for t in (1, 2, 5)}
    for cell in found:
        assert cell.whose == ("shared",)
        (tree,) = cell.choices
        assert tree.get("aggregator") == rules.get(cell.row)
        assert ("adversary" in tree) == (cell.column != "clean")


def test_fmtls_table_3_is_apfl_beside_fmtl():
    found, alphas = cells("fmtl/table3"), set()
    assert len(found) == 56 + 21  # with the anchor of Ditto
    for cell in found:
        (tree,) = cell.choices
        assert cell.federation.data == "vehicle"
        assert (cell.column == "clean") == ("adversary" not in tree)
        number = cell.row.rpartition("=")[2]
        if cell.row.startswith(("FMTL", "Ditto")):
            anchor = {"anchor": "moving"} if cell.row.startswith("FMTL") else {}
            wanted = {"name": "ditto", "lam": float(number), **anchor}
            assert tree["personalizer"] == wanted
        if cell.row.startswith("APFL"):
            attack = "model_replacement" if cell.column.startswith("A3") else None
            own, alpha = tree["personalizer"], float(number)
            assert own == {"name": "apfl", "alpha": alpha, "mix": "shared"}
            assert cell.row == f"APFL, α={alpha}" and tree.get("attack") == attack
            alphas.add(alpha)
    assert alphas == {0.3, 0.5, 0.8}


def test_rows_of_fmtls_table_4_are_the_best_of_three():
    found = cells("fmtl/table4")
    assert len(found) == 16 + 4  # with the anchor of Ditto
    names = {"L2SGD": "l2sgd", "EWC": "ewc", "FMTL": "ditto", "Ditto": "ditto"}
    for cell in found:
        if cell.row == "global":
            assert len(cell.choices) == 1 and cell.whose == ("shared",)
            continue
        method, _, best = cell.row.partition(", ")
        lams = {tree["personalizer"]["lam"] for tree in cell.choices}
        assert best == "best λ" and len(lams) == len(cell.choices) == 3
        assert {t["personalizer"]["name"] for t in cell.choices} == {names[method]}
        for tree in cell.choices:  # what is not chosen differs in nothing else
            assert {**tree, "personalizer": 0} == {**cell.choices[0], "personalizer": 0}
            assert experiment(tree, 0).partition.split[1] > 0  # to choose by


def test_fmtls_figure_3_is_the_strongest_rules_of_two_tables():
    """FMTL, the global model and three defences, by the paper's own numbers."""
    found = cells("fmtl/figure3")
    assert len(found) == 70
    rules = strongest(RULES, *parts("fmtl", "table5"), *parts("fmtl", "table6"))
    assert {cell.row for cell in found} == {"global", "FMTL, λ=0.1", *rules}
    both = [*cells("fmtl/table5"), *cells("fmtl/table6")]
    whole = {cell.label: cell for cell in both}
    assert all(whole[cell.label] == cell for cell in found)
    assert {cell.part for cell in found} == {"Vehicle", "FEMNIST"}
    assert all(ENTRIES["fmtl/figure3"].theirs(cell) for cell in found)


FIGURES = {n: ENTRIES[f"certified/figure{n}"] for n in range(1, 11)}
CHANGES = {"noise", "rotation", "translation"}
LAMBDAS = (0.1, 0.5, 0.9, 1.0)
STEPS = {"mnist": 20 * 2 * 940, "cifar10": 20 * 2 * 780}


@pytest.fixture(scope="module")
def script():
    file = ROOT / "certificates" / "run.py"
    spec = importlib.util.spec_from_file_location("certificates", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def planned(script):
    """Figure and label of every run that the script trains."""
    return [(cell.figure, cell.label) for cell in script.cells()]


def shown(entry, planned):
    """The runs that an entry's patterns find."""
    names = {run: f"certificates/{run[0]}/{run[1]}, seed 0" for run in planned}
    matches = lambda name: any(fnmatchcase(name, some) for some in entry.results)  # noqa: E731
    return [run for run, name in names.items() if matches(name)]


def test_a_figure_shows_runs_that_its_script_trains(planned, script):
    """Its work is theirs; what only personalizes begins with a model of another."""
    trains = {
        (cell.figure, cell.label)
        for cell in script.cells()
        if not script.SKIPPED.items() <= cell.changes.items()
    }
    for entry in FIGURES.values():
        name, *figures = entry.script
        found = shown(entry, planned)
        assert name == "certificates/run.py"
        assert {figure for figure, _ in found} == {*figures}
        assert {figure.partition("_")[0] for figure in figures} == {*entry.data}
        for some in entry.results:  # none of them in vain
            assert shown(entry._replace(results=(some,)), planned)
        own = [figure.partition("_")[0] for figure, _ in trains & {*found}]
        assert entry.work[0] == sum(STEPS[data] for data in own), entry.name


ALONE = {("mnist_mixture", f"{change}, λ=1.0") for change in CHANGES}


CLIENTS = {
    1: ({"rotation"}, {4, 10, 20}, {"federated", "local"}),
    6: ({"translation"}, {4, 10, 20, 100}, {"federated", "local"}),
    7: (CHANGES, {100}, {"nominal", "local"}),  # nobody trains for it in the rounds
    8: (CHANGES, {4}, {"federated", "local"}),
    9: (CHANGES, {10}, {"federated"}),
    10: (CHANGES, {10}, {"federated"}),
}


def test_figures_of_local_and_federated_training(planned):
    every = [x.split(", ") for figure, x in planned if figure == "mnist_clients"]
    for number, (changes, clients, how) in CLIENTS.items():
        found = shown(FIGURES[number], planned)
        labels = {label for figure, label in found if figure == "mnist_clients"}
        assert labels == {
            f"{change}, {many}, {kind}"
            for change, many, kind in every
            if change in changes and int(many.split()[0]) in clients and kind in how
        }
        assert {label.rpartition(", ")[2] for label in labels} == how
        if 10 in clients:  # whose local training is a mixture with λ = 1
            assert {run for run in ALONE if run[1].split(",")[0] in changes} <= {*found}
