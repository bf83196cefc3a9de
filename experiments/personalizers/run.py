"""Train Table 3 of the Ditto paper on stand-ins, Fashion-MNIST under A3, newcomers.

    python experiments/personalizers/choose.py        # first: every value of a grid
    python experiments/personalizers/run.py           # the chosen ones, three seeds
    python experiments/personalizers/run.py newcomers

A finished run is kept in the table of results; what is there is not trained again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path += [str(ROOT.parent), str(ROOT)]

from choose import DATA, METHODS, cell, chosen, grids, problems, ready
from common import Cell, main

EXAMPLES = (5, 20, 0)
"""How many a newcomer trains on; 0: all it has."""


def table() -> Iterator[Cell]:
    """Every method with its chosen options, where `choose.py` is through."""
    for data, threat in problems():
        for method in METHODS if ready(data, threat) else ():
            yield cell(data, threat, method, chosen(data, threat, method))


def newcomers() -> Iterator[Cell]:
    """A tenth of the writers never took part."""
    sections, _ = DATA["mnist"]
    for method in METHODS if ready("mnist", "clean") else ():
        part = chosen("mnist", "clean", method)
        for examples in EXAMPLES:
            late = {"newcomers": 0.1, "newcomer_examples": examples}
            changes = {**sections, "personalizer": part, "evaluate": late}
            yield Cell("newcomers", f"{method}, {examples or 'all'} examples", changes)


def cells() -> Iterator[Cell]:
    """Every run that the page has, those of `choose.py` too."""
    yield from grids()
    yield from table()
    yield from newcomers()


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", [*table(), *newcomers()])
