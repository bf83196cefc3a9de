"""Ditto: Tables 2 to 11 and Figures 1 to 3 and 5 to 9.

@inproceedings{li2021ditto,
  title={Ditto: Fair and Robust Federated Learning Through Personalization},
  author={Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
  booktitle={ICML}, year={2021}}
"""

from __future__ import annotations

from collections.abc import Callable

from troth.reproduce import personal, rows
from troth.reproduce.entry import Cell, Entry, Pick
from troth.reproduce.papers import table
from troth.reproduce.settings import (
    CELEBA,
    FASHION,
    FEMNIST,
    OTHER,
    SKEWED,
    SLOW,
    SMALLER,
    STACKOVERFLOW,
    VEHICLE,
    Federation,
    Setting,
)

_SETTINGS = {
    "Fashion": FASHION,
    "Fashion MNIST": FASHION,
    "FEMNIST": FEMNIST,
    "FEMNIST (skewed)": SKEWED,
    "CelebA": CELEBA,
    "Vehicle": VEHICLE,
    "StackOverflow": STACKOVERFLOW,
}
_DYNAMIC = {"Ditto": "dynamic λ's"}
"""Where λ is the clients' own choice, as everywhere in the paper's Section 4."""


def _whole(name: str, rename: dict[str, str]) -> Callable[[Pick], list[Cell]]:
    """All parts, rows and columns of a table, as printed."""
    return rows.printed(table("ditto", name), _SETTINGS, rename)


def _some(*wanted: str, attack: str = "") -> Callable[[Pick], list[Cell]]:
    """Rows of Table 8 and Table 2's Ditto, in the columns of one attack or in all."""

    def cells(pick: Pick) -> list[Cell]:
        every, own = _whole("table8", {})(pick), _whole("table2", _DYNAMIC)(pick)
        rest = [cell for cell in every if cell.row in wanted]
        rest += [
            cell._replace(part="Fashion MNIST", stands=("Fashion", "Ditto"))
            for cell in own
            if (cell.part, cell.row) == ("Fashion", "Ditto")
        ]
        return [cell for cell in rest if cell.column.startswith(attack)]

    return cells


def _entry(number: int, title: str, *settings: Setting, note: str = "") -> Entry:
    cells = _whole(f"table{number}", _DYNAMIC if number == 2 else {})
    return Entry(f"ditto/table{number}", title, settings, cells, note=note)


_ROBUST = ("Krum", "multi-Krum", "clipping", "k-norm", "k-loss")
_THEORY = ("theory/figures.py",)
_SOLVERS = "Fashion-MNIST among 100 clients, an MLP; the paper does not name its data"
_TERM = (
    "at full scale the data of Table 8; the paper does not name those of the figure, "
    "and prints no number"
)


_EPOCHS = ("epochs of fine-tuning", r", epochs=(\d+)$")
_STOPPED = ("rounds before stopping", r" at (\d+) rounds$")
_SEEN = ("train_loss", "valid_accuracy")


def _solved(
    number: int,
    title: str,
    *results: str,
    shows: tuple[str, ...],
    over: tuple[str, str],
) -> Entry:
    """A figure that `experiments/solvers/run.py` makes."""
    return Entry(
        f"ditto/figure{number}",
        title,
        script=("solvers/run.py",),
        results=tuple(f"solvers/{some}" for some in results),
        form="lines",
        shows=shows,
        over=over,
        note=_SOLVERS,
        data=("fashion_mnist",),
        work=(84 * 400 * 20 * 5, 84 * 30.0),
    )


def _term(pick: Pick) -> list[Cell]:
    """TERM at three temperatures beside the mean, under A1."""
    f, found = pick(FASHION), list[Cell]()
    for column in ("clean", "A1 20%", "A1 50%", "A1 80%"):
        found += rows.cells("Fashion MNIST", f, ["global"], [column])
        found += [_tilted(f, t, column) for t in (1, 2, 5)]
    return found


def _tilted(f: Federation, t: int, column: str) -> Cell:
    (cell,) = rows.cells("Fashion MNIST", f, ["fair"], [column])
    part = {"aggregator": {"name": "term", "t": float(t)}}
    return cell._replace(row=f"TERM, t={t}", choices=({**cell.choices[0], **part},))


ENTRIES = (
    _entry(2, "Accuracy and fairness", FASHION, FEMNIST, note=f"FEMNIST: {SMALLER}"),
    Entry(
        "ditto/table3",
        "Ditto beside other personalizers",
        (FEMNIST, CELEBA),
        personal.table3,
        note="grids of options, and how long EWC, SKL and Per-FedAvg tune, are ours "
        f"(experiments/personalizers); {SMALLER}",
    ),
    _entry(
        4,
        "λ chosen by every client",
        *(FEMNIST, FASHION, CELEBA, VEHICLE, STACKOVERFLOW),
        note="best λ: of the paper's three, by benign clients' validation data; "
        "Fashion-MNIST has none, and as in the authors' code its test data choose; "
        "StackOverflow is not run, for nothing stands in for it",
    ),
    _entry(5, "Ditto with robust rules", FEMNIST, CELEBA, note=SMALLER),
    _entry(6, "All methods on Vehicle", VEHICLE, note=f"{SLOW}; {OTHER}"),
    _entry(7, "All methods on FEMNIST", FEMNIST, note=SMALLER),
    _entry(
        8,
        "All methods on Fashion MNIST",
        FASHION,
        note="where the paper and the authors' code differ, as in the code: the split "
        "is the published one, fine-tuning takes 40 epochs (the paper says 50), and "
        "test data choose FedMGDA+'s ε, for there are no validation data",
    ),
    _entry(9, "All methods on FEMNIST (skewed)", SKEWED, note=SMALLER),
    _entry(10, "All methods on CelebA", CELEBA, note=SMALLER),
    _entry(
        11,
        "All methods on StackOverflow",
        STACKOVERFLOW,
        note="its data are not here, and nothing stands in; the authors' median there "
        "is a known slip",
    ),
    *(
        Entry(
            f"ditto/figure{number}",
            f"{title}, by theory and simulated",
            script=_THEORY,
            results=("theory/figures",),
            form="lines",
            work=(0, 30.0),
        )
        for number, title in (
            (1, "Error and its spread against λ"),
            (2, "Error and best λ against relatedness"),
        )
    ),
    Entry(
        "ditto/figure3",
        "Accuracy against the share of attackers, Fashion MNIST",
        (FASHION,),
        _some("global", "local", "FedMGDA+", "clipping", "Krum"),
        form="lines",
        points=("table8", "table2"),
        note="points of the paper are those of its Table 8, and of its Table 2 for "
        "Ditto, whose clients choose λ; the three strongest defences are those by its "
        "means over attacks, for the text does not name them",
    ),
    Entry(
        "ditto/figure5",
        "Fair rules under attack A1",
        (FASHION,),
        _term,
        results=("tension/term/*",),
        form="lines",
        note=_TERM,
    ),
    Entry(
        "ditto/figure6",
        "Accuracy and variance under attack A1",
        (FASHION,),
        _some("global", "median", *_ROBUST, attack="A1"),
        form="scatter",
        points=("table8", "table2"),
        note="points of the paper are those of its Table 8, and of its Table 2 for "
        "Ditto, whose clients choose λ, deviations squared; rules are those that its "
        "text names",
    ),
    _solved(
        7,
        "Ditto solved jointly and in two stages, A3",
        *("joint/*", "two_stage/*"),
        shows=("own models", "personal, weighted", "personal, std"),
        over=_EPOCHS,
    ),
    _solved(
        8,
        "Fine-tuning after stopping early, A3",
        *("stopped/*", "joint/*"),
        shows=("personal, weighted", "personal, std"),
        over=_STOPPED,
    ),
    _solved(
        9,
        "What a server sees that would stop early, A3",
        "stopped/*λ=1.0*",  # the shared model does not see λ
        shows=(*(f"all clients', {w}" for w in _SEEN), "shared, weighted"),
        over=_STOPPED,
    ),
)
