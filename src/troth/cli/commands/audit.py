"""`troth audit`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import (
    Client,
    Clients,
    DataDir,
    Device,
    Folder,
    Json,
    Out,
    Quiet,
)
from troth.cli.commands._opening import numbers, opened, whose

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Group

    from troth.examine.audit import Found

_MOST = 10  # clients that are shown
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
    path: Folder,
    eps: Annotated[
        float | None, Flag(help="Radius of the ball, 1 being the data's range.")
    ] = None,
    norm: Annotated[str | None, Flag(help="linf or l2.")] = None,
    iterations: Annotated[int | None, Flag(help="Steps of PGD.")] = None,
    bounds: Annotated[
        str | None, Flag(help="The data's range, such as 0,1; none: it has none.")
    ] = None,
    on: Annotated[str, Flag(help="Whose examples: test or valid.")] = "test",
    clients: Clients = "all",
    client: Client = None,
    limit: Annotated[
        float, Flag(help="A rise or a disparity that is worth a worry.")
    ] = 0.1,
    out: Out = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say which clients' models may lean on a shortcut."""
    from troth.cli import progress, tables
    from troth.examine import audit as auditing

    given = {"eps": eps, "norm": norm, "iterations": iterations}
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    if bounds is not None:
        range_ = [] if bounds == "none" else numbers("--bounds", bounds, "0,1 or none")
        options["bounds"] = range_
    run = opened(path)
    intro = f"Auditing {path}. Its results are written at the end"
    with progress.Counter("clients", intro, quiet) as watch:
        found = auditing.audit(
            run,
            on=on,  # type: ignore[arg-type]  # refused where it is neither
            clients=whose(clients, client),
            limit=limit,
            out=out,
            data_dir=data_dir,
            device=device,
            watch=watch,
            **options,
        )
    lines = [*_words(found), f"Files: {found.file}"]
    tables.show(_table(found), lines, _told(found), as_json, quiet)


def _told(found: Found) -> dict[str, Any]:
    """The one object for programs."""
    said: dict[str, Any] = {"file": str(found.file), "settings": found.settings}
    for column in ("suspect", "biased"):
        if column in found.table:
            each = {"yes": 1.0, "no": 0.0, "open": math.nan}
            said[column] = {k: found.clients(column, v) for k, v in each.items()}
    return said | {"clients": found.table, "rough": found.rough}


def _table(found: Found) -> Group:
    """The clients that changed most."""
    from troth.cli import tables

    t = found.table
    order = _largest(t["change"], _MOST)
    columns = {head: t[name] for head, name in _COLUMNS.items() if name in t}
    rows = [[_cell(head, c[i]) for head, c in columns.items()] for i in order]
    some = f"the {len(order)} of {len(t['client'])} clients that changed most"
    title = (
        f"Own models on adversarial examples of the shared one (x_adv: accuracy there; "
        f"change: since personalization began), {some}"
    )
    return tables.table(title, list(columns), rows, texts=0)


def _largest(column: np.ndarray, many: int) -> np.ndarray:
    """Indices of the largest values, the very largest first and NaN last."""
    import numpy as np

    return np.argsort(-column, kind="stable")[:many]


def _cell(head: str, value: float) -> str:
    from troth.runs.compare import number, signed

    if head in ("client", "examples"):
        return f"{int(value)}"
    if head in ("change", "disparity"):
        return signed(float(value), "accuracy")
    whole = head in ("accuracy", "x_adv")
    return number(float(value), "accuracy" if whole else "error")


def _words(found: Found) -> list[str]:
    """Say whom to worry about, how sure that is, and what would settle it."""
    n, limit = len(found.table["client"]), found.settings["limit"]
    sure, open_ = found.clients("suspect", 1.0), found.clients("suspect", math.nan)
    lines = [
        f"Worry about {_who(sure)}: adversarial examples of the shared model fool "
        f"their models by more than {limit:g} less often than the shared one, so that "
        "they rely on other features."
        if sure
        else f"Of {n} clients, none is sure to have changed by more than {limit:g}.",
    ]
    if open_:
        lines.append(f"Open: {_who(open_)}; their intervals reach to both sides.")
    lines += [*_far(found), *_known(found)]
    lines.append(
        f"How sure: each interval holds with 95 % for one client; of {n}, "
        f"{0.05 * n:.1f} may be wrong by chance. Other features need not be spurious: "
        "this is a reason to look, not a proof."
    )
    lines.append(f"What would settle it: {_settle(found)}")
    return [*lines, *(f"Rough: {text}." for text in found.rough)]


def _far(found: Found) -> list[str]:
    """Whose models lie furthest from the shared one, which tells as much or more."""
    import numpy as np

    t = found.table
    order = _largest(t["distance"], 3)
    if len(order) < 3:
        return []
    who = _who([int(k) for k in t["client"][order]])
    each = t["distance"][order]
    return [
        f"Furthest from the shared model: {who}, ‖v−w‖ from {each[0]:.3g} down to "
        f"{each[-1]:.3g}; the median is {np.nanmedian(t['distance']):.3g}. On coloured "
        "digits distance told biased models from others better than x_adv did."
    ]


def _known(found: Found) -> list[str]:
    """What conflicting test data say."""
    if "biased" not in found.table:
        return []
    yes, no = found.clients("biased", 1.0), found.clients("biased", 0.0)
    open_ = len(found.clients("biased", math.nan))
    both = len({*yes} & {*found.clients("suspect", 1.0)})
    return [
        "Conflicting test data: accuracy is lower there by more than "
        f"{found.settings['limit']:g} for {_who(yes) if yes else 'nobody'}, not for "
        f"{len(no)}, open for {open_}. Of the {len(yes)}, {both} are among those to "
        "worry about."
    ]


def _settle(found: Found) -> str:
    """Conflicting examples; without any, more examples."""
    enough = math.ceil(1 / max(found.settings["limit"], 0.01) ** 2)
    need = _needed(found)
    more = f" For open changes, examples to audit: {need}." if need else ""
    if "biased" not in found.table:
        return (
            f"about {enough} conflicting test examples a client "
            "(partition.conflicting, or an array group with 1 for those that go "
            f"against the shortcut).{more}"
        )
    if open_ := found.clients("biased", math.nan):
        return f"about {enough} conflicting test examples for {_who(open_)}.{more}"
    return "conflicting test data have settled it."


def _needed(found: Found) -> str:
    """How many examples open clients would need if they stay as they are."""
    t, limit, said = found.table, found.settings["limit"], []
    for k in found.clients("suspect", math.nan):
        at = int((t["client"] == k).argmax())
        half = (t["change_high"][at] - t["change_low"][at]) / 2
        gap = abs(t["change"][at] - limit)
        if gap > 0:  # no number would do where it is the limit itself; NaN: no examples
            many = math.ceil(t["examples"][at] * (half / gap) ** 2)
            said.append(f"client {k} about {many:,} (now {t['examples'][at]})")
    more = f" and {len(said) - 3} others" if len(said) > 3 else ""
    return ", ".join(said[:3]) + more


def _who(ids: list[int]) -> str:
    """`client 3`, `clients 3 and 8`, or the first of many."""
    if len(ids) == 1:
        return f"client {ids[0]}"
    first = ", ".join(map(str, ids[:20]))
    more = f" … ({len(ids)} in all)" if len(ids) > 20 else ""
    return f"{len(ids)} clients ({first}{more})"
