"""FMTL: Tables 1 and 3 to 7, Figures 1 to 4.

@article{li2020multitask,
  title={Federated Multi-Task Learning for Competing Constraints},
  author={Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
  journal={arXiv preprint arXiv:2012.04221}, year={2020}}
"""

from __future__ import annotations

from collections.abc import Callable

from troth.reproduce import rows
from troth.reproduce.entry import Cell, Entry, Pick, merged
from troth.reproduce.papers import table
from troth.reproduce.settings import (
    CELEBA,
    OTHER,
    SKEWED,
    SLOW,
    SMALLER,
    VEHICLE,
    Federation,
    Setting,
    Tree,
)

_SETTINGS = {"Vehicle": VEHICLE, "FEMNIST": SKEWED, "CelebA": CELEBA}
_SAME = "FMTL states no learning rate, batch or rounds: Ditto's are taken"
_FLIPS = "A1 flips CelebA's labels, as Ditto does; this paper draws them at random"
_RENAME = {f"FMTL, λ={lam}": f"Ditto, λ={lam}" for lam in ("0.01", "0.1", "1", "2")}


def _whole(name: str) -> Callable[[Pick], list[Cell]]:
    """All parts, rows and columns of a table, as printed."""
    return rows.printed(table("fmtl", name), _SETTINGS, _RENAME)


def _with(
    f: Federation, part: str, row: str, column: str, personalizers: list[Tree]
) -> Cell:
    """A personalizer, or the best of several by validation data."""
    base = merged(f.tree, rows.threat(f, column))
    base = merged(base, rows.held(f)) if len(personalizers) > 1 else base
    trees = tuple(merged(base, {"personalizer": p}) for p in personalizers)
    return Cell(part, row, column, trees, f)


def _apfl(pick: Pick) -> list[Cell]:
    """Table 3: APFL beside FMTL."""
    printed = table("fmtl", "table3")
    assert printed is not None
    (part,), f, found = printed.parts, pick(VEHICLE), list[Cell]()
    for row in part.rows:
        if row.startswith("APFL"):
            alpha = {"name": "apfl", "alpha": float(row.partition("α=")[2])}
            found += [_with(f, part.data, row, c, [alpha]) for c in part.columns]
        else:
            found += rows.cells(part.data, f, [row], part.columns, rename=_RENAME)
    return found


def _objectives(pick: Pick) -> list[Cell]:
    """Table 4: other multi-task objectives."""
    printed = table("fmtl", "table4")
    assert printed is not None
    found: list[Cell] = []
    epochs = {"epochs": 5}
    lams = (0.1, 1.0, 10.0)
    grids: dict[str, list[Tree]] = {
        "L2SGD, best λ": [{"name": "l2sgd", "lam": lam} for lam in lams],
        "EWC, best λ": [{"name": "ewc", "lam": 10 * x} | epochs for x in lams],
    }
    for part in printed.parts:
        f = pick(_SETTINGS[part.data])
        for row in part.rows:
            if row in grids:
                every = (_with(f, part.data, row, c, grids[row]) for c in part.columns)
                found += list(every)
            else:
                best = {"FMTL, best λ": "FMTL"}
                found += rows.cells(part.data, f, [row], part.columns, rename=best)
    return found


def _lines(pick: Pick) -> list[Cell]:
    """Figure 3: methods of Tables 5 and 6 against the share of attackers."""
    wanted = {"global", "multi-Krum", "clipping", "k-norm", "FMTL, λ=0.1"}
    every = [*_whole("table5")(pick), *_whole("table6")(pick)]
    return [cell for cell in every if cell.row in wanted]


def _entry(number: int, title: str, *settings: Setting) -> Entry:
    more = [_FLIPS] if CELEBA in settings else [SLOW] if VEHICLE in settings else []
    last = OTHER if settings == (VEHICLE,) else SMALLER
    note = "; ".join([_SAME, *more, last])
    name = f"table{number}"
    return Entry(f"fmtl/{name}", title, settings, _whole(name), note=note)


_OVER = ("attackers, %", r", (\d+)%$")
_EPOCHS = ("epochs of fine-tuning", r", epochs=(\d+)$")
_SHARED = ("shared, weighted", "shared, std")
_OWN = ("personal, weighted", "personal, std")

ENTRIES = (
    _entry(1, "Accuracy and fairness", VEHICLE, SKEWED),
    Entry(
        "fmtl/table3",
        "APFL and FMTL on Vehicle",
        (VEHICLE,),
        _apfl,
        note="the paper's second sample of Vehicle is not described; " + OTHER,
    ),
    Entry(
        "fmtl/table4",
        "Other multi-task objectives",
        (SKEWED, CELEBA),
        _objectives,
        note=f"{_FLIPS}; {SMALLER}",
    ),
    _entry(5, "All methods on Vehicle", VEHICLE),
    _entry(6, "All methods on FEMNIST (skewed)", SKEWED),
    _entry(7, "All methods on CelebA", CELEBA),
    Entry(
        "fmtl/figure1",
        "Fair rules under attack",
        results=("tension/term/*",),
        script=("tension/run.py", "term"),
        form="lines",
        shows=_SHARED,
        over=_OVER,
        data=("fashion_mnist",),
        work=(16 * 200 * 20 * 5, 16 * 15.0),
        note="on Fashion-MNIST with t = 1, 2 and 5; the paper has 1, 2 and 10, and "
        "names no data",
    ),
    Entry(
        "fmtl/figure2",
        "Accuracy and variance under attack",
        results=("tension/defences/*",),
        script=("tension/run.py", "defences"),
        data=("fashion_mnist",),
        work=(40 * 200 * 20 * 5, 40 * 15.0),
        form="scatter",
        shows=_SHARED + _OWN,
        over=_OVER,
        note="own models are FMTL's beside each rule; on Fashion-MNIST among 100 "
        "clients, the paper does not name its data",
    ),
    Entry(
        "fmtl/figure3",
        "Accuracy against the share of attackers, Vehicle and FEMNIST (skewed)",
        (VEHICLE, SKEWED),
        _lines,
        form="lines",
        points=("table5", "table6"),
        note="points of the paper are those of its Tables 5 and 6; " + SMALLER,
    ),
    Entry(
        "fmtl/figure4",
        "Fine-tuning in two stages beside the joint solver",
        script=("solvers/run.py",),
        data=("fashion_mnist",),
        work=(84 * 400 * 20 * 5, 84 * 30.0),
        results=("solvers/joint/*", "solvers/two_stage/*"),
        form="lines",
        shows=("own models", *_OWN),
        over=_EPOCHS,
        note="on Fashion-MNIST among 100 clients; the paper does not name its data",
    ),
)
