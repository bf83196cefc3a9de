"""The command `troth check`."""

from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import Device, Json
from troth.cli.commands._words import refuse


def check(
    network: Annotated[
        str,
        Argument(
            metavar="NETWORK",
            help="Name of a model, or module:function that returns your own network.",
        ),
    ],
    shape: Annotated[
        str,
        Flag(metavar="3,32,32", help="Shape of one example, without the batch axis."),
    ],
    classes: Annotated[int, Flag(min=0, help="Number of classes. 0: regression.")] = 10,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Check whether a network can be trained for many clients together, and how fast.

    The network is built and run on random data. This takes a few seconds.
    """
    sizes = shape.split(",")
    if not all(size.strip().isdecimal() and int(size) for size in sizes):
        refuse(f"--shape {shape} must be whole numbers above 0, such as 3,32,32")
    from troth.runs import check as checking

    found = checking.check(network, [int(s) for s in sizes], classes, device=device)
    _show(found, as_json)


def _show(found: Mapping[str, Any], as_json: bool) -> None:
    """Print to stdout which path each layer of a network takes, and its speed."""
    from troth.cli import tables

    if as_json:
        tables.print_json(found)
        return
    columns = ["layer", "kind", "parameters", "path", "reason"]
    rows = [
        [r["layer"], r["kind"], f"{r['parameters']:,}", r["path"], r["why"]]
        for r in found["layers"]
    ]
    shown = tables.console(stderr=False)
    title = f"{found['model']}: how its layers are computed"
    shown.print(tables.table(title, columns, rows))
    times = found["milliseconds"]
    words = {"loop": "one client at a time", "vmap": "clients together"}
    parts = [f"{value:.3g} ms ({words[how]})" for how, value in times.items()]
    text = f"A step of one client on {found['device']} takes {', '.join(parts)}."
    shown.print(text, soft_wrap=True)
    if found["note"]:
        note = found["note"][0].upper() + found["note"][1:]
        shown.print(f"{note}.", soft_wrap=True, markup=False)
