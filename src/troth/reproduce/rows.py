"""The rows and columns of the Ditto and FMTL tables: methods and threats.

`methods.json` lists the rows by name. It says how a row changes the experiment
(`choices`; if there are several, validation data choose one) and whether it is about
personal or shared models. It also has the grids of Ditto's Table 3.
`experiments/personalizers` has larger grids.
"""

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from troth.reproduce import papers
from troth.reproduce.entry import Cell, Pick, merged
from troth.reproduce.settings import SETTINGS, Federation, Tree, packaged

_COLUMN = re.compile(r"A([123]) (\d+)%")
_NUMBERED = re.compile(r"(Ditto|FMTL|APFL), [λα]=([\d.]+)")
_METHODS = packaged("methods")
GRIDS: dict[str, list[Tree]] = _METHODS["grids"]
"""Methods of Ditto's Table 3, and the options among which each is chosen."""
DYNAMIC = {"Ditto": "dynamic λ's"}
"""Rows in which clients choose λ, as in all of Section 4 of the Ditto paper."""


class Method(NamedTuple):
    """A row of a table: its changes to the experiment, and the models it evaluates."""

    choices: tuple[Tree, ...]
    whose: tuple[str, ...] = ("personal",)


def threat(federation: Federation, column: str, attack: bool = True) -> Tree:
    """Return the changes of an experiment for a column: `clean`, `A1 20%` and so on.

    The malicious clients are those that the authors' code draws with its seed 0. A2 and
    A3 are applied to updates trained on wrong labels, as in the authors' code. The
    authors have other code for StackOverflow: labels are redrawn in every round, A2 is
    noise of standard deviation 1, and A3 multiplies an update by the number of the
    client's training examples.

    Args:
        federation: The data and the number of clients.
        column: Name of the column in the paper.
        attack: Whether to include the attack on the updates, which changes only the
            shared model.

    Example:
        >>> from troth.reproduce.settings import SETTINGS
        >>> threat(SETTINGS["Vehicle"].original, "A2 20%")["attack"]
        'random_update'
    """
    if column == "clean":
        return {}
    match = _COLUMN.fullmatch(column)
    assert match, column
    number = hostile(federation.clients, int(match[2]) / 100)
    tree: Tree = {"adversary": {"clients": authors(federation.clients, number)}}
    if attack:
        known = _METHODS["attacks"]
        tree |= known.get(f"{match[1]}, {federation.data}", known[match[1]])
    return tree


def hostile(clients: int, share: float) -> int:
    """Return the number of malicious clients for a share.

    Shares up to 20 % are rounded up, larger ones down, as the authors do (11 of 23).
    """
    exact = round(share * clients, 9)
    return math.ceil(exact) if share <= 0.2 else math.floor(exact)


def authors(clients: int, number: int) -> list[int]:
    """Return the clients that the authors' code draws with its seed 0."""
    random = np.random.RandomState(1234567)
    drawn = random.choice(clients, number, replace=False)
    return sorted(int(k) for k in drawn)


def strong(column: str) -> bool:
    """Return whether the paper's rule for λ counts an attack as strong (G.4)."""
    match = _COLUMN.fullmatch(column)
    return match is not None and (match[1] == "3" or int(match[2]) > 50)


def method(f: Federation, row: str, column: str) -> Method:
    """Return the method of a row, which may depend on the column and the data."""
    if numbered := _NUMBERED.fullmatch(row):
        key = "alpha" if numbered[1] == "APFL" else "lam"
        name = "apfl" if key == "alpha" else "ditto"
        return Method(({"personalizer": {"name": name, key: float(numbered[2])}},))
    if row == "finetuning":  # 40 epochs as in the authors' script, else the paper's 50
        epochs = {"fashion_mnist": 40, "digits": 2}.get(f.data, 50)
        tuned: Tree = {"personalizer": {"name": "finetune", "epochs": epochs}}
        chunk = {"engine": {"chunk": 50}} if f.data == "fashion_mnist" else {}
        return Method((tuned | chunk,))
    if row == "dynamic λ's":
        kind, known = "strong" if strong(column) else "weak", _METHODS["dynamic"]
        options = known.get(f"{kind}, {f.data}", known[kind])
        part = {"name": "ditto", "lam": "auto", "choose": "paper", **options}
        return Method((_validated(f, {"personalizer": part}),))
    made: dict[str, Any] = _METHODS["rows"][row]
    if "lams" in made:
        lams = _METHODS["lams"].get(f.data, _METHODS["lams"]["usual"])
        parts = [{"personalizer": {"name": "ditto", "lam": lam}} for lam in lams]
        return Method(tuple(part | made.get("also", {}) for part in parts))
    if "grid" in made:
        grid = GRIDS[made["grid"]]
        return Method(tuple(_validated(f, {"personalizer": one}) for one in grid))
    return Method(tuple(made["choices"]), tuple(made.get("whose", ("personal",))))


def _validated(f: Federation, tree: Tree) -> Tree:
    """Add validation data to the split if clients choose by them and it has none."""
    given = f.tree["partition"].get("split") == "given"
    return merged({"partition": {"valid": 0.1}} if given else {}, tree)


def printed(
    paper: str,
    tables: Sequence[str],
    pick: Pick,
    *,
    rename: Mapping[str, str] = MappingProxyType({}),
    rows: Sequence[str] = (),
) -> list[Cell]:
    """Return the cells of a paper's tables, as printed.

    Args:
        paper: Name of the paper.
        tables: Names of the tables.
        pick: Chooses the federation of a setting.
        rename: Row → name of its method, if it differs.
        rows: Rows to return; if empty, all rows.
    """
    settings = papers.read(paper)["settings"]
    return [
        _cell(part.data, f, row, rename.get(row, row), column)
        for table in tables
        for part in papers.table(paper, table).parts
        for f in [pick(SETTINGS[settings[part.data]])]
        for row in part.rows
        if not rows or row in rows
        for column in part.columns
    ]


def beside(
    paper: str,
    tables: Sequence[str],
    pick: Pick,
    *,
    rows: Sequence[str],
    attack: str = "",
) -> list[Cell]:
    """Return rows of Ditto's Table 8, and Ditto of its Table 2."""
    table8, table2 = tables
    cells = printed(paper, [table8], pick, rows=rows)
    own = printed(paper, [table2], pick, rename=DYNAMIC, rows=["Ditto"])
    cells += [
        cell._replace(part="Fashion MNIST", stands=(cell.part, cell.row))
        for cell in own
        if cell.part == "Fashion"
    ]
    return [cell for cell in cells if cell.column.startswith(attack)]


def tilted(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """Return the mean and TERM at three temperatures, under A1 (Ditto's Figure 5)."""
    name, rows = "Fashion MNIST", ("global", "TERM, t=1", "TERM, t=2", "TERM, t=5")
    f = pick(SETTINGS[name])
    columns = ("clean", "A1 20%", "A1 50%", "A1 80%")
    return [_cell(name, f, row, row, column) for column in columns for row in rows]


def _cell(part: str, f: Federation, row: str, name: str, column: str) -> Cell:
    own = method(f, name, column)
    base = merged(f.tree, threat(f, column, attack=name != "local"))
    trees = tuple(merged(base, changes) for changes in own.choices)
    kept = f.kept.get(name.replace("FMTL", "Ditto"), "")  # the same method
    known = kept and f.kind != "small" and len(trees) == 1 and column == "clean"
    return Cell(part, row, column, trees, f, (kept,) if known else (), own.whose)


def label(method: str, part: Tree) -> str:
    """Return the name of a method of a grid, with its options."""
    options = [f"{k}={v}" for k, v in part.items() if k != "name"]
    return " ".join([method, *options])


def grids(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """Return the cells of Ditto's Table 3: two data sets, clean and under A1.

    The malicious clients are those of the authors' code. With substitutes, whose
    committed results are those of `experiments/personalizers`, they are drawn by the
    seed.
    """
    drawn: dict[str, Tree] = {"clean": {}, "A1 50%": {"adversary": {"fraction": 0.5}}}
    homes = {"FEMNIST": "personalizers/mnist", "CelebA": "personalizers/celeba"}
    cells = []
    for name, parts in GRIDS.items():
        for column in drawn:
            for setting, home in homes.items():
                f = pick(SETTINGS[setting])
                own = drawn[column] if f.kind == "stand-in" else threat(f, column)
                base = merged(f.tree, own)
                trees = tuple(merged(base, {"personalizer": p}) for p in parts)
                known = parts if f.kind == "stand-in" else ()
                kept = (f"{home}/{label(name, p)}, {column}" for p in known)
                files = tuple(f"{one}, seed {{seed}}" for one in kept)
                where = ("FEMNIST and CelebA", name, f"{setting} {column}")
                cells.append(Cell(*where, trees, f, files))
    return cells
