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
    name: Annotated[
        str | None, Argument(metavar="NAME", help="A method, to explain its options.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List methods with their options and papers, or explain one method."""
    from troth import lookup
    from troth.cli import tables

    kinds = [*lookup.FOLDERS]
    if kind is not None and kind not in kinds:
        hint = f"{lookup.nearest(kind, kinds)}; there are: {', '.join(kinds)}"
        refuse(f"there is no kind '{kind}'{hint}")
    if kind is not None and name is not None and not as_json:
        print(lookup.explained(kind, name))
        return
    chosen = [kind] if kind else kinds
    names = (lambda _: [name]) if name else lookup.names
    methods = {k: [lookup.about(k, name) for name in names(k)] for k in chosen}
    tables.methods(methods, as_json)
