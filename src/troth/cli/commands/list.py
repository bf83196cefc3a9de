"""The command `troth list`."""

from typing import Annotated

from typer import Argument

from troth.cli.commands._flags import Json
from troth.cli.commands._words import refuse


def list(
    kind: Annotated[
        str | None,
        Argument(metavar="KIND", help="Kind, such as aggregator. Default: all kinds."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List methods (all, or those of one kind) with their options and papers."""
    from troth import lookup
    from troth.cli import tables

    kinds = [*lookup.FOLDERS]
    if kind is not None and kind not in kinds:
        hint = f"{lookup.nearest(kind, kinds)}; there are: {', '.join(kinds)}"
        refuse(f"there is no kind '{kind}'{hint}")
    chosen = [kind] if kind else kinds
    methods = {k: [lookup.about(k, name) for name in lookup.names(k)] for k in chosen}
    tables.methods(methods, as_json)
