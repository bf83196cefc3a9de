"""Which runs of the certificates each figure shows."""

from __future__ import annotations

import importlib.util
from fnmatch import fnmatchcase
from pathlib import Path

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
def planned() -> list[tuple[str, str]]:
    """Figure and label of every run that the script trains."""
    file = ROOT / "certificates" / "run.py"
    spec = importlib.util.spec_from_file_location("certificates", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [(cell.figure, cell.label) for cell in module.cells()]


def shown(entry: Entry, planned: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The runs whose files an entry's pattern finds."""
    names = {
        run: f"certificates/results/{run[0]}/{run[1]}, seed 0.json" for run in planned
    }
    return [run for run, name in names.items() if fnmatchcase(name, entry.results)]


@pytest.mark.parametrize("entry", certified.ENTRIES, ids=lambda entry: entry.name)
def test_a_figure_shows_runs_that_its_script_trains(
    entry: Entry, planned: list[tuple[str, str]]
) -> None:
    script, figure = entry.script
    assert script == "certificates/run.py" and figure in {f for f, _ in planned}
    found = shown(entry, planned)
    assert found and {f for f, _ in found} == {figure}
    assert entry.data == (figure.partition("_")[0],)


@pytest.mark.parametrize(
    ("number", "figure", "labels"),
    [
        (2, "mnist_nominal", CHANGES),
        (3, "mnist_affine", {"rotation", "translation"}),
        (4, "cifar10_nominal", CHANGES),
        (10, "mnist_mixture", {f"{c}, λ={lam}" for c in CHANGES for lam in LAMBDAS}),
    ],
)
def test_figures_that_show_all_runs_of_a_kind(
    number: int, figure: str, labels: set[str], planned: list[tuple[str, str]]
) -> None:
    found = shown(FIGURES[number], planned)
    assert {*found} == {(figure, label) for label in labels}


@pytest.mark.parametrize(
    ("number", "changes", "clients", "how"),
    [
        (1, {"rotation"}, {4, 10, 20}, {"federated", "local"}),
        (6, {"translation"}, {4, 10, 20, 100}, {"federated", "local"}),
        (7, CHANGES, {100}, {"nominal", "local"}),  # nobody trains for it in the rounds
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
    assert {label for _, label in found} == wanted
    assert {label.rpartition(", ")[2] for label in wanted} == how


@pytest.mark.parametrize(("number", "clients"), [(8, 4), (9, 10)])
def test_figures_of_so_many_clients(
    number: int, clients: int, planned: list[tuple[str, str]]
) -> None:
    found = {label for _, label in shown(FIGURES[number], planned)}
    words = {tuple(label.split(", ")) for label in found}
    assert {many for _, many, _ in words} == {f"{clients} clients"}
    assert {change for change, _, _ in words} >= {"rotation", "translation"}


def test_curves_have_no_printed_numbers() -> None:
    assert [*FIGURES] == [*range(1, 11)]
    for entry in certified.ENTRIES:
        assert (
            entry.printed is None and entry.form == "lines" and not entry.everywhere()
        )
