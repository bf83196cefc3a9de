"""Which runs of the certificates each figure shows."""

from __future__ import annotations

import importlib.util
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

import pytest

from troth.reproduce import certified
from troth.reproduce.entry import Entry

ROOT = Path(__file__).parents[2] / "experiments"
FIGURES = {
    int(entry.name.rpartition("figure")[2]): entry for entry in certified.ENTRIES
}
CHANGES = {"noise", "rotation", "translation"}
LAMBDAS = (0.1, 0.5, 0.9, 1.0)


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The script."""
    file = ROOT / "certificates" / "run.py"
    spec = importlib.util.spec_from_file_location("certificates", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def planned(made: ModuleType) -> list[tuple[str, str]]:
    """Figure and label of every run that the script trains."""
    return [(cell.figure, cell.label) for cell in made.cells()]


def shown(entry: Entry, planned: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The runs whose files an entry's patterns find."""
    names = {run: f"certificates/{run[0]}/{run[1]}, seed 0" for run in planned}
    return [
        run
        for run, name in names.items()
        if any(fnmatchcase(name, some) for some in entry.results)
    ]


@pytest.mark.parametrize("entry", certified.ENTRIES, ids=lambda entry: entry.name)
def test_a_figure_shows_runs_that_its_script_trains(
    entry: Entry, planned: list[tuple[str, str]]
) -> None:
    script, *figures = entry.script
    found = shown(entry, planned)
    assert script == "certificates/run.py"
    assert {figure for figure, _ in found} == {*figures}
    assert {figure.partition("_")[0] for figure in figures} == {*entry.data}
    for some in entry.results:  # none of them in vain
        assert shown(entry._replace(results=(some,)), planned)


@pytest.mark.parametrize("entry", certified.ENTRIES, ids=lambda entry: entry.name)
def test_the_work_of_a_figure_is_that_of_its_trainings(
    entry: Entry, made: ModuleType, planned: list[tuple[str, str]]
) -> None:
    """Those that only personalize begin with a model that another has trained."""
    wanted = {*shown(entry, planned)}
    steps = 0
    for cell in made.cells():
        trains = not made.SKIPPED.items() <= cell.changes.items()
        if trains and (cell.figure, cell.label) in wanted:
            steps += certified._STEPS[cell.figure.partition("_")[0]][0]
    assert entry.work is not None and entry.work[0] == steps


ALONE = {("mnist_mixture", f"{change}, λ=1.0") for change in CHANGES}
NOMINAL = {(f"{d}_nominal", change) for d in ("mnist", "cifar10") for change in CHANGES}


@pytest.mark.parametrize(
    ("number", "runs"),
    [
        (2, NOMINAL),
        (3, {("mnist_affine", "rotation"), ("mnist_affine", "translation")}),
        (4, NOMINAL | ALONE | {("cifar10_mixture", label) for _, label in ALONE}),
        (
            5,
            {("cifar10_mixture", f"rotation, λ={lam}") for lam in LAMBDAS}
            | {("cifar10_federated", "rotation")},
        ),
    ],
)
def test_figures_that_show_all_runs_of_a_kind(
    number: int, runs: set[tuple[str, str]], planned: list[tuple[str, str]]
) -> None:
    assert {*shown(FIGURES[number], planned)} == runs


@pytest.mark.parametrize(
    ("number", "changes", "clients", "how"),
    [
        (1, {"rotation"}, {4, 10, 20}, {"federated", "local"}),
        (6, {"translation"}, {4, 10, 20, 100}, {"federated", "local"}),
        (7, CHANGES, {100}, {"nominal", "local"}),  # nobody trains for it in the rounds
        (8, CHANGES, {4}, {"federated", "local"}),
        (9, CHANGES, {10}, {"federated"}),
        (10, CHANGES, {10}, {"federated"}),
    ],
)
def test_figures_of_local_and_federated_training(
    number: int,
    changes: set[str],
    clients: set[int],
    how: set[str],
    planned: list[tuple[str, str]],
) -> None:
    every = {label for figure, label in planned if figure == "mnist_clients"}
    wanted = {
        label
        for label in every
        for change, many, kind in [label.split(", ")]
        if change in changes and int(many.split()[0]) in clients and kind in how
    }
    found = shown(FIGURES[number], planned)
    assert {label for figure, label in found if figure == "mnist_clients"} == wanted
    assert {label.rpartition(", ")[2] for label in wanted} == how
    if 10 in clients:  # whose local training is a mixture with λ = 1
        assert {run for run in ALONE if run[1].split(",")[0] in changes} <= {*found}


def test_curves_have_no_printed_numbers() -> None:
    assert [*FIGURES] == [*range(1, 11)]
    for entry in certified.ENTRIES:
        assert (
            entry.printed is None and entry.form == "lines" and not entry.everywhere()
        )


def test_two_figures_have_a_line_a_client() -> None:
    shown = [e.name for e in certified.ENTRIES if certified.EVERY in e.shows]
    assert shown == ["certified/figure8", "certified/figure9"]
