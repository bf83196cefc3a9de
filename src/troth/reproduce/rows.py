"""The cells of the tables of two papers, Ditto and FMTL.

FMTL is *Federated Multi-Task Learning for Competing Constraints*. Rows are methods and
columns are attacks. `methods.json` lists the rows by name. It has the changes that a
row makes to the experiment (`choices`; if there are several, validation data decide),
and whether the row is about personal or shared models. It also has the grids of Ditto's
Table 3. `experiments/personalizers` has larger grids.
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
_NUMBERED = re.compile(r"((?:Ditto|FMTL|APFL), ([λα]))=([\d.]+)")
_METHODS = packaged("methods")
GRIDS: dict[str, list[Tree]] = _METHODS["grids"]
"""Methods of Ditto's Table 3 → the options from which validation data choose."""
DYNAMIC = {"Ditto": "dynamic λ's"}
"""Row → its method. In Section 4 of the Ditto paper, each client chooses λ."""


class Method(NamedTuple):
    """The method of a row."""

    choices: tuple[Tree, ...]  # changes of the experiment, of which one is chosen
    whose: tuple[str, ...] = ("personal",)  # models with the row's numbers


def threat(federation: Federation, column: str, attack: bool = True) -> Tree:
    """Return the changes of an experiment for a column: `clean`, `A1 20%` and so on.

    A1, A2 and A3 are the attacks of the Ditto paper, and 20 % is the share of malicious
    clients. These are the clients that the authors' code draws with its seed 0. A2 and
    A3 change updates that were trained on wrong labels, as in the authors' code. For
    StackOverflow, the authors' code differs: labels are redrawn in every round, A2 is
    noise of standard deviation 1, and A3 multiplies an update by the number of the
    client's training examples.

    Args:
        federation: The data and the number of clients.
        column: Name of the column in the paper.
        attack: Whether malicious clients also change their updates. This has no effect
            on local models.

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
    """Return the number of malicious clients for a share of the clients.

    As in the authors' code, the number is rounded up for shares up to 20 %, and down
    for larger shares: 50 % of 23 clients are 11.
    """
    exact = round(share * clients, 9)
    return math.ceil(exact) if share <= 0.2 else math.floor(exact)


def authors(clients: int, number: int) -> list[int]:
    """Return the malicious clients that the code of Ditto's authors draws.

    They are those for its seed 0.
    """
    random = np.random.RandomState(1234567)
    drawn = random.choice(clients, number, replace=False)
    return sorted(int(k) for k in drawn)


def strong(column: str) -> bool:
    """Return whether an attack is strong by Ditto's rule for λ (Appendix G.4)."""
    match = _COLUMN.fullmatch(column)
    return match is not None and (match[1] == "3" or int(match[2]) > 50)


def method(f: Federation, row: str, column: str) -> Method:
    """Return the method of a row, which may depend on the column and the data."""
    if numbered := _NUMBERED.fullmatch(row):
        key = {"λ": "lam", "α": "alpha"}[numbered[2]]
        part = {**_METHODS["numbered"][numbered[1]], key: float(numbered[3])}
        return Method(({"personalizer": part},))
    if row == "finetuning":  # the authors' script has 40 epochs, the paper 50
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
        return Method(tuple(merged(part, made.get("also", {})) for part in parts))
    if "grid" in made:
        grid = GRIDS[made["grid"]]
        return Method(tuple(_validated(f, {"personalizer": one}) for one in grid))
    return Method(tuple(made["choices"]), tuple(made.get("whose", ("personal",))))


def _validated(f: Federation, tree: Tree) -> Tree:
    """Add validation data to a given split, because clients choose options by them."""
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
    """Return the cells of a paper's tables in the order of the paper.

    Args:
        paper: Name of the paper.
        tables: Names of the tables.
        pick: Chooses the federation of a setting.
        rename: Row → name of its method, if they differ.
        rows: Rows to return; empty: all rows.
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
    """Return rows of Ditto's Table 8, and the row Ditto of its Table 2.

    Args:
        paper: Name of the paper.
        tables: Names of Table 8 and Table 2.
        pick: Chooses the federation of a setting.
        rows: Rows of Table 8.
        attack: Beginning of the columns to return, such as "A1".
    """
    table8, table2 = tables
    cells = printed(paper, [table8], pick, rows=rows)
    own = printed(paper, [table2], pick, rename=DYNAMIC, rows=["Ditto"])
    cells += [
        cell._replace(part="Fashion MNIST", stands=(cell.part, cell.row))
        for cell in own
        if cell.part == "Fashion"
    ]
    return [cell for cell in cells if cell.column.startswith(attack)]


def anchored(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """Return the cells of FMTL's tables, with additional rows "Ditto".

    FMTL's Algorithm 1 pulls the personal model v towards the client's copy w_k of the
    shared model, which is trained at the same time. So do the rows "FMTL". In the rows
    "Ditto", v is pulled towards the shared model at the beginning of the round, as in
    the authors' code.
    """
    cells = printed(paper, tables, pick)
    own = [cell for cell in cells if cell.row.startswith("FMTL")]
    for cell in own:
        name = cell.row.replace("FMTL", "Ditto")
        other = _cell(cell.part, cell.federation, name, name, cell.column)
        cells.append(other._replace(stands=(cell.part, cell.row)))
    return cells


def tilted(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """Return the cells of Ditto's Figure 5, under the attack A1.

    The rows are the plain mean, and TERM (tilted empirical risk minimization) with
    three temperatures.
    """
    name, rows = "Fashion MNIST", ("global", "TERM, t=1", "TERM, t=2", "TERM, t=5")
    f = pick(SETTINGS[name])
    columns = ("clean", "A1 20%", "A1 50%", "A1 80%")
    return [_cell(name, f, row, row, column) for column in columns for row in rows]


def _cell(part: str, f: Federation, row: str, name: str, column: str) -> Cell:
    own = method(f, name, column)
    base = merged(f.tree, threat(f, column, attack=name != "local"))
    trees = tuple(merged(base, changes) for changes in own.choices)
    kept = f.kept.get(name, "")
    known = kept and f.kind != "small" and len(trees) == 1 and column == "clean"
    return Cell(part, row, column, trees, f, (kept,) if known else (), own.whose)


def label(method: str, part: Tree) -> str:
    """Return the name of a method with its options, such as `ditto lam=0.1`."""
    options = [f"{k}={v}" for k, v in part.items() if k != "name"]
    return " ".join([method, *options])


def grids(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """Return the cells of Ditto's Table 3: two data sets, clean and under A1.

    On the original data, the malicious clients are those of the authors' code. On
    substitutes, they are drawn by the seed, because the results are those of
    `experiments/personalizers`.
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
