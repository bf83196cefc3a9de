"""Train Table 3 of the Ditto paper on substitute data, Fashion-MNIST, and newcomers.

    python experiments/personalizers/choose.py        # first: every value of a grid
    python experiments/personalizers/run.py           # the chosen values, three seeds
    python experiments/personalizers/run.py newcomers

Finished runs are saved in the table of results and are not trained again.
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
    """Yield every method with its chosen options, if `choose.py` is finished."""
    for data, threat in problems():
        for method in METHODS if ready(data, threat) else ():
            yield cell(data, threat, method, chosen(data, threat, method))


def newcomers() -> Iterator[Cell]:
    """Yield runs in which a tenth of the writers never takes part."""
    sections, _ = DATA["mnist"]
    for method in METHODS if ready("mnist", "clean") else ():
        part = chosen("mnist", "clean", method)
        for examples in EXAMPLES:
            late = {"newcomers": 0.1, "newcomer_examples": examples}
            changes = {**sections, "personalizer": part, "evaluate": late}
            yield Cell("newcomers", f"{method}, {examples or 'all'} examples", changes)


def cells() -> Iterator[Cell]:
    """Yield every run of the page, including those of `choose.py`."""
    yield from grids()
    yield from table()
    yield from newcomers()


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", [*table(), *newcomers()])
