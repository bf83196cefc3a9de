"""The command line: finds the commands, and says in a line what is wrong.

Commands stand in `commands/`, one file each, and import what they need when they run:
help must come at once, and torch does not.
"""

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import Option as Flag
from typer.core import TyperGroup

from troth.cli import commands
from troth.cli.commands._words import STOPPED, complain, heed, stopped


class Commands(TyperGroup):
    """Every command ends here: bad input is one line on stderr and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except typer.Abort:
            sys.exit(stopped(STOPPED))
        except Exception as error:
            sys.exit(_explain(error))
        sys.exit(stopped(code) if isinstance(code, int) else 0)


def _explain(error: Exception) -> int:
    """Say in a line what is wrong with the input; raise again what is a bug."""
    if hasattr(error, "format_message"):  # typer's own: a usage error
        path = getattr(getattr(error, "ctx", None), "command_path", "troth")
        return complain(f"{error.format_message().rstrip('.')}; see: {path} --help")
    from troth.types import Refusal

    if not isinstance(error, Refusal):
        raise error
    return complain(str(error))


app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, Flag("--version", help="Print the version.")] = False,
) -> None:
    """Federated learning among participants you cannot trust."""
    if version:
        from troth import __version__

        print(f"troth {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def found() -> dict[str, Callable[..., None]]:
    """Every command, by looking into their folder, in the order of help."""
    names = {m.name for m in pkgutil.iter_modules(commands.__path__)}
    first = [name for name in commands.ORDER if name in names]
    rest = sorted(n for n in names - {*first} if not n.startswith("_"))
    modules = {
        n: importlib.import_module(f"troth.cli.commands.{n}") for n in first + rest
    }
    return {name: getattr(module, name) for name, module in modules.items()}


for _name, _function in found().items():
    app.command(name=_name)(_function)


def main() -> None:
    """The entry point."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: nothing else may take its place
            way = "r" if name == "stdin" else "w"
            stream = open(os.devnull, way, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    heed()
    app(prog_name="troth")
