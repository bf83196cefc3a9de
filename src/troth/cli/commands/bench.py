"""The command `troth bench`."""

from typing import Annotated

from typer import Option as Flag

from troth.cli.commands._flags import Json


def bench(
    quick: Annotated[bool, Flag("--quick", help="Measure small models only.")] = False,
    as_json: Json = False,
) -> None:
    """Measure how much faster Troth trains on this machine than a plain loop."""
    from troth.cli import tables
    from troth.runs import bench as measuring

    tables.speeds(measuring.measure(quick), as_json)
