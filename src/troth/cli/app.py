"""Collect the commands of the command line, and report bad input in one line."""

import importlib
import logging
import os
import pkgutil
import sys
import warnings
from typing import Annotated, Any

import typer
from typer import Option as Flag
from typer.core import TyperGroup

from troth.cli import commands
from troth.cli.commands._words import OWN, STOPPED, Warnings, complain, heed, stopped

DOCS = "Documentation: https://troth.example/docs"
"""Shown below the help of every command."""


class Commands(TyperGroup):
    """The group of all commands. Bad input prints one line, and the exit code is 2."""

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
    """Print one line about bad input or an error in a user's function.

    Return the exit code. Raise any other error again.
    """
    if hasattr(error, "format_message"):  # a usage error found by typer
        path = getattr(getattr(error, "ctx", None), "command_path", "troth")
        text = error.format_message().rstrip(".")
        word = str(getattr(error, "option_name", "")).lstrip("-")
        if path.endswith((" run", " poison")) and (where := _setting(word)):
            text = f"{text.partition('.')[0]}. Set it by --set {where}=VALUE"
        return complain(f"{text}; see: {path} --help")
    from troth.types import Refusal

    if isinstance(error, Refusal):
        return complain(str(error))
    from troth import lookup

    if not (own := lookup.own_error(error)):
        raise error
    print(f"troth: {own}", file=sys.stderr)
    return OWN


def _setting(word: str) -> str:
    """Return the setting with this name, such as train.rounds; "" if there is none."""
    from dataclasses import fields, is_dataclass

    from troth.config.schema import Experiment

    if word in {f.name for f in fields(Experiment)} - {"resolved"}:
        return word
    whole, key = Experiment(), word.replace("-", "_")
    for section in fields(Experiment):
        value = getattr(whole, section.name)
        if is_dataclass(value) and key in {f.name for f in fields(value)} - {"name"}:
            return f"{section.name}.{key}"
    return ""


app = typer.Typer(
    cls=Commands,
    epilog=DOCS,
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


def _add_commands() -> None:
    """Add the command of every module in `commands/`, in the order of the help."""
    names = {m.name for m in pkgutil.iter_modules(commands.__path__)}
    first = [name for name in commands.ORDER if name in names]
    for name in first + sorted(n for n in names - {*first} if n[0] != "_"):
        module = importlib.import_module(f"troth.cli.commands.{name}")
        app.command(name, epilog=DOCS)(getattr(module, name))


_add_commands()


def _as_line(message: Any, category: type, *place: Any, **more: Any) -> str:
    """Format a warning of Troth as one line, and others as Python does."""
    if category.__module__.startswith("troth."):
        return f"troth: {message}\n"
    return _formatted(message, category, *place, **more)


_formatted = warnings.formatwarning


def main() -> None:
    """Run `troth`: the entry point of the installed command."""
    warnings.formatwarning = _as_line
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed; open the null device in its place
            way = "r" if name == "stdin" else "w"
            stream = open(os.devnull, way, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    heed()
    logging.getLogger("troth").addHandler(Warnings())
    app(prog_name="troth")
