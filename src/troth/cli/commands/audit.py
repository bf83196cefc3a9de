"""The command `troth audit`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands import _flags as flags
from troth.cli.commands._flags import numbers, opened, whose

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Group

    from troth.examine.audit import Found

_MOST = 10  # largest number of clients in the table
_COLUMNS = {
    "client": "client",
    "examples": "examples",
    "accuracy": "accuracy",
    "x_adv": "adv_accuracy",
    "change": "change",
    "θ": "angle",
    "γ": "ratio",
    "‖v−w‖": "distance",
    "disparity": "disparity",
}


def audit(
    path: flags.Folder,
    eps: Annotated[
        float | None,
        Flag(
            help="Largest change of an input in an adversarial example, as a share of "
            "the inputs' range. Default: as in the experiment."
        ),
    ] = None,
    norm: Annotated[
        str | None,
        Flag(
            help="Norm that limits the change of an input: linf or l2. Default: as in "
            "the experiment."
        ),
    ] = None,
    iterations: Annotated[
        int | None, Flag(help="Number of PGD steps. Default: as in the experiment.")
    ] = None,
    bounds: Annotated[
        str | None,
        Flag(
            help="Smallest and largest value of inputs, such as 0,1. none: no bounds. "
            "Default: as in the experiment."
        ),
    ] = None,
    on: Annotated[str, Flag(help="Examples to audit on: test or valid.")] = "test",
    clients: flags.Clients = "all",
    client: flags.Client = None,
    limit: Annotated[
        float,
        Flag(
            help="A client is suspect if its own model's accuracy on adversarial "
            "examples is above the shared model's by more than this."
        ),
    ] = 0.1,
    out: flags.Out = None,
    device: flags.Device = "auto",
    data_dir: flags.DataDir = None,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Find clients whose own models may rely on a shortcut."""
    from troth.cli import progress, tables
    from troth.examine import audit as auditing

    given: dict[str, Any] = {"eps": eps, "norm": norm, "iterations": iterations}
    if bounds is not None:
        range_ = [] if bounds == "none" else numbers("--bounds", bounds, "0,1 or none")
        given["bounds"] = range_
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    options |= {"on": on, "clients": whose(clients, client), "limit": limit}
    options |= {"out": out, "data_dir": data_dir, "device": device}
    run = opened(path)
    intro = f"Auditing {path}. Results are written at the end"
    with progress.Counter("clients", intro, quiet) as watch:
        found = auditing.audit(run, watch=watch, **options)
    lines = [*_words(found), f"Files: {found.file}"]
    tables.show(_table(found), lines, _told(found), as_json, quiet)


def _told(found: Found) -> dict[str, Any]:
    """Return the result of an audit as an object for `--json`."""
    told: dict[str, Any] = {"file": str(found.file), "settings": found.settings}
    for column in ("suspect", "biased"):
        if column in found.table:
            each = {"yes": 1.0, "no": 0.0, "open": math.nan}
            told[column] = {k: found.clients(column, v) for k, v in each.items()}
    return told | {"clients": found.table, "rough": found.rough}


def _table(found: Found) -> Group:
    """Return a table of the clients with the largest change."""
    from troth.cli import tables

    t = found.table
    order = _largest(t["change"], _MOST)
    columns = {head: t[name] for head, name in _COLUMNS.items() if name in t}
    rows = [[_cell(head, c[i]) for head, c in columns.items()] for i in order]
    title = (
        f"Personal models on adversarial examples of the shared model: the "
        f"{len(order)} of {len(t['client'])} clients with the largest change\n"
        "(x_adv: accuracy on these examples; change: x_adv minus that of the shared "
        "model)"
    )
    return tables.table(title, list(columns), rows, texts=0)


def _largest(column: np.ndarray, many: int) -> np.ndarray:
    """Return the indices of the largest values in descending order, with NaN last."""
    import numpy as np

    return np.argsort(-column, kind="stable")[:many]


def _cell(head: str, value: float) -> str:
    from troth.runs.compare import number, signed

    if head in ("client", "examples"):
        return f"{int(value)}"
    if head in ("change", "disparity"):
        return signed(float(value), "accuracy")
    return number(float(value), "accuracy" if head in ("accuracy", "x_adv") else "")


def _words(found: Found) -> list[str]:
    """Return lines that say which clients are suspect, and how certain this is."""
    n, limit = len(found.table["client"]), found.settings["limit"]
    yes, open_ = found.clients("suspect", 1.0), found.clients("suspect", math.nan)
    lines = [
        f"Suspect: {_who(yes)}. Adversarial examples of the shared model fool their "
        f"models less often than the shared model, by more than {limit:g}. They rely "
        "on other features."
        if yes
        else f"Suspect: none of {n} clients. No change is certain to exceed {limit:g}."
    ]
    if open_:
        lines.append(f"Undecided: {_who(open_)}. Their intervals contain the limit.")
    lines += [*_far(found), *_known(found)]
    lines.append(
        "Confidence: an interval contains the true change of its client with "
        f"probability 95 %. Of {n} intervals, {0.05 * n:.1f} may miss it by chance. "
        "Other features need not be spurious: this is a reason to look closer, not a "
        "proof."
    )
    lines.append(f"What would decide it: {_settle(found)}")
    return [*lines, *(f"Caution: {text}." for text in found.rough)]


def _far(found: Found) -> list[str]:
    """Return a line with the three clients furthest from the shared model."""
    import numpy as np

    t = found.table
    order = _largest(t["distance"], 3)
    if len(order) < 3:
        return []
    each = t["distance"][order]
    return [
        f"Furthest from the shared model: {_who([int(k) for k in t['client'][order]])},"
        f" with ‖v−w‖ from {each[0]:.3g} to {each[-1]:.3g}. The median is "
        f"{np.nanmedian(t['distance']):.3g}. In experiments on colored digits, this "
        "distance separated biased models from others better than x_adv did."
    ]


def _known(found: Found) -> list[str]:
    """Return a line about the results on conflicting test data, if there are any."""
    if "biased" not in found.table:
        return []
    yes, no = found.clients("biased", 1.0), found.clients("biased", 0.0)
    open_ = len(found.clients("biased", math.nan))
    both = len({*yes} & {*found.clients("suspect", 1.0)})
    return [
        "Conflicting test data: accuracy is lower there by more than "
        f"{found.settings['limit']:g} for {_who(yes) if yes else 'no client'}. For "
        f"{len(no)} clients it is not, and {open_} are undecided. Of the {len(yes)} "
        f"with lower accuracy, {both} are also suspect."
    ]


def _settle(found: Found) -> str:
    """Return a text that says how many examples would decide undecided clients."""
    enough = math.ceil(1 / max(found.settings["limit"], 0.01) ** 2)
    need = _needed(found)
    more = f" Examples that would decide open changes: {need}." if need else ""
    if "biased" not in found.table:
        return (
            f"about {enough} conflicting test examples per client "
            "(partition.conflicting, or an array group that is 1 for examples that "
            f"contradict the shortcut).{more}"
        )
    if open_ := found.clients("biased", math.nan):
        return f"about {enough} conflicting test examples for {_who(open_)}.{more}"
    return "conflicting test data have decided it."


def _needed(found: Found) -> str:
    """Return a text that says how many examples undecided clients need.

    A client is undecided if the interval of its change contains the limit. If the
    change stays the same, the length of the interval is proportional to 1/√(number of
    examples). The estimate is the number of examples with which one end of the interval
    is at the limit.
    """
    t, limit, texts = found.table, found.settings["limit"], []
    for k in found.clients("suspect", math.nan):
        at = int((t["client"] == k).argmax())
        change, size = t["change"][at], t["examples"][at]
        end = t["change_low"][at] if change > limit else t["change_high"][at]
        if change != limit and not math.isnan(change):  # else no number is enough
            many = math.ceil(size * ((end - change) / (limit - change)) ** 2)
            texts.append(f"client {k} about {many:,} instead of {size:,}")
    more = f" and {len(texts) - 3} more clients" if len(texts) > 3 else ""
    return f"{', '.join(texts[:3])}{more}" if texts else ""


def _who(ids: list[int]) -> str:
    """Return clients as text, such as `client 3` or `2 clients (3, 8)`.

    If there are more than 20, the text has the first 20.
    """
    if len(ids) == 1:
        return f"client {ids[0]}"
    first = ", ".join(map(str, ids[:20]))
    more = ", …" if len(ids) > 20 else ""
    return f"{len(ids)} clients ({first}{more})"
