"""The rows and columns of the Ditto and FMTL tables: methods and threats."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from troth.reproduce import papers
from troth.reproduce.entry import Cell, Pick, merged
from troth.reproduce.personal import METHODS
from troth.reproduce.personal import grids as grids
from troth.reproduce.settings import SETTINGS, Federation, Tree

_COLUMN = re.compile(r"A([123]) (\d+)%")
_ATTACKS = {"1": {}, "2": {"attack": "random_update"}}
_ATTACKS |= {"3": {"attack": "model_replacement"}}
_FIRST = {"ties": "first"}  # of equal clients the one that was drawn first
_RULES: dict[str, Tree] = {"median": {"name": "median"}}
_RULES |= {"Krum": {"name": "krum"} | _FIRST}
_RULES |= {"multi-Krum": {"name": "multi_krum"} | _FIRST}
_RULES |= {"k-norm": {"name": "k_norm"}, "k-loss": {"name": "k_loss"}}
EPS = (0.0, 0.1, 0.5, 1.0)
"""FedMGDA+'s, of which benign clients' validation data choose (Ditto, G.6), and test
data where there are none: on Fashion-MNIST."""
WEAK = {"candidates": [0.1, 1.0, 2.0], "fallback": 1.0}
STRONG = {"candidates": [0.05, 0.1, 0.2], "fallback": 0.1}
_LAM = re.compile(r"(?:Ditto|FMTL), λ=([\d.]+)")
_RENAME = {f"FMTL, λ={lam}": f"Ditto, λ={lam}" for lam in ("0.01", "0.1", "1", "2")}
_RENAME |= {"FMTL, best λ": "FMTL"}
DYNAMIC = {"Ditto": "dynamic λ's"}
"""Where λ is the clients' own choice, as everywhere in the Ditto paper's Section 4."""


class Method(NamedTuple):
    """A row: what it changes, and whose models it is about."""

    choices: tuple[Tree, ...]
    whose: tuple[str, ...] = ("personal",)


def threat(federation: Federation, column: str, attack: bool = True) -> Tree:
    """What a column changes: `clean`, `A1 20%` and so on.

    The hostile clients are those that the authors' code draws with its seed 0. A2 and
    A3 stand on wrong labels, as in their code.

    Args:
        federation: among whose clients.
        column: as the papers head it.
        attack: false leaves out what reaches only the shared model.
    """
    if column == "clean":
        return {}
    found = _COLUMN.fullmatch(column)
    assert found, column
    number = hostile(federation.clients, int(found[2]) / 100)
    adversary = {"clients": authors(federation.clients, number)}
    return {"adversary": adversary, **(_ATTACKS[found[1]] if attack else {})}


def hostile(clients: int, share: float) -> int:
    """How many: rounded up to a fifth, down above it (the authors: 11 of 23)."""
    exact = round(share * clients, 9)
    return math.ceil(exact) if share <= 0.2 else math.floor(exact)


def authors(clients: int, number: int) -> list[int]:
    """The very clients that the authors' code draws with its seed 0."""
    random = np.random.RandomState(1234567)
    drawn = random.choice(clients, number, replace=False)
    return sorted(int(k) for k in drawn)


def strong(column: str) -> bool:
    """An attack that the paper's rule for λ calls strong (G.4)."""
    found = _COLUMN.fullmatch(column)
    return bool(found) and (found[1] == "3" or int(found[2]) > 50)  # type: ignore[index]


def held(federation: Federation) -> Tree:
    """Validation data where a client must choose, and the split gives none."""
    given = federation.tree["partition"].get("split") == "given"
    return {"partition": {"valid": 0.1}} if given else {}


def method(federation: Federation, row: str, column: str) -> Method:
    """What a row changes in a column."""
    f = federation
    if row == "global":  # beside any Ditto: the shared model does not see it
        return Method((_ditto(1.0),), ("shared",))
    if lam := _LAM.fullmatch(row):
        return Method((_ditto(float(lam[1])),))
    if row in _RULES:
        return Method((_rule(row),), ("shared",))
    if alpha := re.fullmatch(r"APFL, α=([\d.]+)", row):
        return Method(_personal({"name": "apfl", "alpha": float(alpha[1])}))
    known: dict[str, Callable[[], Method]] = {
        "local": lambda: Method(({"personalizer": "local"},)),
        "clipping": lambda: Method(({"filter": ["clip"]},), ("shared",)),
        "FedMGDA+": lambda: Method(_mgda(), ("shared",)),
        "finetuning": lambda: Method((_tuned(f),)),
        "Ditto + clipping": lambda: Method(_best(f, {"filter": ["clip"]})),
        "Ditto + multi-Krum": lambda: Method(_best(f, _rule("multi-Krum"))),
        "L2SGD, best λ": lambda: Method(_held(f, METHODS["L2SGD"])),
        "EWC, best λ": lambda: Method(_held(f, METHODS["EWC"])),
        "dynamic λ's": lambda: Method((_dynamic(f, column),)),
    }
    if row in known:
        return known[row]()
    if row.startswith("fair"):
        return Method(({"aggregator": {"name": "term", "t": 1.0}},), ("shared",))
    assert row in ("Ditto", "FMTL", "best λ"), row
    return Method(_best(f, {}))


def _personal(*parts: Tree) -> tuple[Tree, ...]:
    return tuple({"personalizer": part} for part in parts)


def _held(f: Federation, parts: Sequence[Tree]) -> tuple[Tree, ...]:
    """Personalizers of which validation data choose one."""
    return tuple(merged(held(f), tree) for tree in _personal(*parts))


def _rule(row: str) -> Tree:
    return {"aggregator": _RULES[row] | {"strict": False}}


def _mgda() -> tuple[Tree, ...]:
    return tuple({"aggregator": {"name": "fedmgda", "eps": eps}} for eps in EPS)


def _ditto(lam: float) -> Tree:
    return {"personalizer": {"name": "ditto", "lam": lam}}


def lams(f: Federation) -> tuple[float, ...]:
    """The fixed values that the papers try."""
    if f.data == "stackoverflow":
        return (0.05, 0.1, 0.3)
    few = f.data in ("femnist", "mnist_by_writer", "mnist")
    return (0.01, 0.1, 1.0) if few else (0.1, 1.0, 2.0)


def _best(f: Federation, more: Tree) -> tuple[Tree, ...]:
    """Every λ, of which one is chosen."""
    return tuple(_ditto(lam) | more for lam in lams(f))


def _dynamic(f: Federation, column: str) -> Tree:
    options: Tree = STRONG if strong(column) else WEAK
    if f.data == "stackoverflow":
        tried = [0.01, 0.05, 0.1] if strong(column) else [0.05, 0.1, 0.3]
        options = options | {"candidates": tried}
    part = {"name": "ditto", "lam": "auto", "choose": "paper", **options}
    return merged(held(f), {"personalizer": part})


def _tuned(f: Federation) -> Tree:
    """40 epochs on Fashion-MNIST, as the authors' script; 50 else, as the paper."""
    epochs = {"fashion_mnist": 40, "digits": 2}.get(f.data, 50)
    chunk = {"engine": {"chunk": 50}} if f.data == "fashion_mnist" else {}
    return {"personalizer": {"name": "finetune", "epochs": epochs}, **chunk}


def printed(
    paper: str,
    tables: Sequence[str],
    pick: Pick,
    *,
    rename: Mapping[str, str] = MappingProxyType({}),
    rows: Sequence[str] = (),
) -> list[Cell]:
    """All parts, rows and columns of a paper's tables, as it prints them.

    Args:
        paper: such as ditto.
        tables: such as table8.
        pick: what each federation comes to on this machine.
        rename: row of the table → the method that it is.
        rows: only these.
    """
    names = {**_RENAME, **rename}
    settings = papers.read(paper)["settings"]
    return [
        _cell(part.data, f, row, names.get(row, row), column)
        for table in tables
        for part in papers.known(paper, table).parts
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
    """Rows of Ditto's Table 8 and the Ditto of its Table 2, under one attack or all."""
    table8, table2 = tables
    found = printed(paper, [table8], pick, rows=rows)
    own = printed(paper, [table2], pick, rename=DYNAMIC, rows=["Ditto"])
    found += [
        cell._replace(part="Fashion MNIST", stands=(cell.part, cell.row))
        for cell in own
        if cell.part == "Fashion"
    ]
    return [cell for cell in found if cell.column.startswith(attack)]


def tilted(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """TERM at three temperatures beside the mean, under A1 (Ditto's Figure 5)."""
    name, found = "Fashion MNIST", list[Cell]()
    f = pick(SETTINGS[name])
    for column in ("clean", "A1 20%", "A1 50%", "A1 80%"):
        found.append(_cell(name, f, "global", "global", column))
        fair = _cell(name, f, "fair", "fair", column)
        for t in (1, 2, 5):
            tree = {**fair.choices[0], "aggregator": {"name": "term", "t": float(t)}}
            found.append(fair._replace(row=f"TERM, t={t}", choices=(tree,)))
    return found


def _cell(part: str, f: Federation, row: str, name: str, column: str) -> Cell:
    found = method(f, name, column)
    base = merged(f.tree, threat(f, column, attack=name != "local"))
    trees = tuple(merged(base, changes) for changes in found.choices)
    whole = f.kind != "small" and len(trees) == 1
    known = f.kept.get(name) if whole and column == "clean" else None
    files = (known,) if known else ()
    return Cell(part, row, column, trees, f, files, found.whose)
