"""`troth bench`."""

from typing import Annotated

from typer import Option as Flag

from troth.cli.commands._flags import Json


def bench(
    quick: Annotated[bool, Flag("--quick", help="Only the small models.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the speed of training here, against a plain loop over clients."""
    from troth.cli import tables
    from troth.runs import bench as measuring

    tables.speeds(measuring.measure(quick), as_json)
