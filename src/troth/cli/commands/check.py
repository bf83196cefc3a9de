"""The command `troth check`."""

from typing import Annotated

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
    from troth.cli import tables
    from troth.runs import check as checking

    found = checking.check(network, [int(s) for s in sizes], classes, device=device)
    tables.layers(found, as_json)
