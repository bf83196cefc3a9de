"""The command line: parse, call, print.

What is said of a run goes to stderr, what was asked for to stdout. Commands import what
they need when they run: help must come at once, and torch does not.
"""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument
from typer import Option as Flag
from typer.core import TyperGroup

if TYPE_CHECKING:
    import numpy as np

    from troth.loading import Run

_BAD, _STOPPED = 2, 130


class Commands(TyperGroup):
    """Every command ends here: bad input is one line on stderr and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except typer.Abort:
            sys.exit(_STOPPED)
        except Exception as error:
            sys.exit(_explain(error))
        sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception) -> int:
    """Say in a line what is wrong with the input; raise again what is a bug."""
    if hasattr(error, "format_message"):  # typer's own: a usage error
        path = getattr(getattr(error, "ctx", None), "command_path", "troth")
        return _complain(f"{error.format_message().rstrip('.')}; see: {path} --help")
    from troth.types import Refusal

    if not isinstance(error, Refusal):
        raise error
    return _complain(str(error))


def _complain(text: str, code: int = _BAD) -> int:
    print(f"troth: {' '.join(text.split())}", file=sys.stderr)
    return code


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Json = Annotated[bool, Flag("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, Flag("--quiet", "-q", help="No progress, only results.")]
Folder = Annotated[Path, Argument(metavar="RUN", help="The folder of a run.")]
File = Annotated[Path | None, Argument(metavar="EXPERIMENT.toml")]
Settings = Annotated[
    list[str] | None,
    Flag("--set", metavar="SECTION.KEY=VALUE", help="Change a setting; repeatable."),
]


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


def main() -> None:
    """The entry point."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app(prog_name="troth")


@app.command()
def run(
    experiment: File = None,
    settings: Settings = None,
    out: Annotated[Path | None, Flag(help="A new folder; else one in runs/.")] = None,
    device: Annotated[str | None, Flag(help="auto, cpu, cuda, cuda:N, mps.")] = None,
    data_dir: Annotated[Path | None, Flag(help="Look for data sets here.")] = None,
    dry_run: Annotated[bool, Flag("--dry-run", help="Only say what it takes.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train an experiment, every run of its grid; without a file, the quickstart."""
    from troth import api, display, folder

    name = experiment.stem if experiment else "quickstart"
    root = out or api.fresh(experiment)
    given: dict[str, Any] = {"settings": settings or [], "device": device}
    given["data_dir"] = None if data_dir is None else str(data_dir.absolute())
    if dry_run:
        folder.check_free(root)
        display.costs(api.cost(experiment, **given), name, as_json)
        return
    train = functools.partial(api.run, experiment, out=root, **given)
    found = _watched(train, root, name, quiet)
    _show(found, root, name, as_json, quiet, in_words=experiment is None)


@app.command()
def resume(path: Folder, as_json: Json = False, quiet: Quiet = False) -> None:
    """Go on with a run, or with a grid, from its last checkpoint."""
    from troth import api, display

    if api.finished(path) and not quiet:
        display.say(f"{path} is finished already; this is what it found.")
    train = functools.partial(api.resume, path)
    found = _watched(train, path, path.name, quiet)
    _show(found, path, path.name, as_json, quiet)


def _watched(
    train: Callable[..., list[Run]], root: Path, name: str, quiet: bool
) -> list[Run]:
    """Train with progress; Ctrl-C says what is saved and how to go on."""
    from troth import folder, progress, runs

    again = f"go on with: troth resume {shlex.quote(str(root))}"
    intro = f"Writing to {root}. Ctrl-C saves and stops; then {again}"
    watch = progress.Watcher(name, intro, quiet)
    try:
        with watch:
            return train(watch=watch)
    except runs.Interrupted as stop:
        last, saved = watch.last, (Path(stop.args[0]) / folder.CHECKPOINT).exists()
        at = f" after round {last.done} of {last.total}" if last else ""
        state = f"saved in {root}" if saved else "not saved (output.checkpoint = false)"
        text = f"stopped{at}, {state}; {again}"
    except KeyboardInterrupt:
        text = f"stopped; {again if root.exists() else 'nothing was written'}"
    raise typer.Exit(_complain(text, _STOPPED))


def _show(
    found: list[Run],
    root: Path,
    name: str,
    as_json: bool,
    quiet: bool,
    in_words: bool = False,
) -> None:
    """What came out: tables for people, one object for programs."""
    from troth import display, outcome

    single = found[0].path == root
    labels = [(r.experiment.name or name) if single else r.path.name for r in found]
    compared = outcome.compare(found, labels)
    if not (as_json and quiet):
        display.outcome(found, labels, compared, in_words)
        display.onward(found, root)
    if as_json:
        display.print_json({"runs": outcome.entries(found), "comparisons": compared})


@app.command(name="list")
def list_(
    kind: Annotated[str | None, Argument(metavar="KIND")] = None,
    as_json: Json = False,
) -> None:
    """What exists of a kind, or of all kinds, with options and papers."""
    from troth import display, lookup
    from troth.types import Refusal

    kinds = list(lookup.FOLDERS)
    if kind is not None and kind not in kinds:
        hint = f"{lookup.nearest(kind, kinds)}; there are: {', '.join(kinds)}"
        raise Refusal(f"there is no kind '{kind}'{hint}")
    chosen = [kind] if kind else kinds
    found = {k: [lookup.about(k, name) for name in lookup.names(k)] for k in chosen}
    display.methods(found, as_json)


@app.command()
def cite(
    of: Annotated[Path | None, Argument(metavar="EXPERIMENT.toml|RUN")] = None,
    as_json: Json = False,
) -> None:
    """Print BibTeX of all that an experiment uses; without one, of the quickstart."""
    from troth import api, config, display, folder

    if of is not None and of.is_dir():
        of /= folder.GRID if (of / folder.GRID).exists() else folder.EXPERIMENT
    planned = api.plan(api.tree(of, []), None)
    used = [config.citations(one.experiment) for one in planned]
    entries = list(dict.fromkeys(entry for each in used for entry in each))
    if as_json:
        display.print_json({"citations": entries})
    else:
        print("\n\n".join(entries))


@app.command()
def predict(
    path: Folder,
    client: Annotated[int, Flag(help="Whose model; the first client is 0.")],
    data: Annotated[Path, Flag(help=".npz with x (and y, to be checked), or .npy.")],
    out: Annotated[Path | None, Flag(help="Write a new .csv file.")] = None,
    as_json: Json = False,
) -> None:
    """Predict with a client's own model: a label a line on stdout."""
    from troth import display, folder
    from troth.loading import Run
    from troth.types import Refusal

    if (path / folder.GRID).exists():
        names = sorted(file.parent.name for file in path.glob(f"*/{folder.EXPERIMENT}"))
        raise Refusal(f"{path} is a grid; give one of its runs: {', '.join(names)}")
    if out is not None and (out.exists() or not os.access(out.parent, os.W_OK)):
        raise Refusal(f"{out} exists already or cannot be written; give another --out")
    run, (x, y) = Run(path), _examples(data)
    found = run.predict(client, x)
    score = _score(found, y, run.experiment.resolved["classes"])
    if out is not None:
        columns = {"example": list(range(len(x))), "prediction": found.tolist()}
        folder.write_csv(out, columns)
    if as_json:
        display.print_json({"client": client, "predictions": found, **score})
    elif out is None:
        print("\n".join(map(str, found.tolist())))
    for head, value in score.items():
        if value is not None:
            display.say(f"{head} {display.number(value, head)} on {len(x)} examples")


def _examples(file: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Inputs as a data set of one's own would have them, and targets if there are."""
    import zipfile
    import zlib

    import numpy as np

    from troth.datasets.npz import inputs
    from troth.types import Refusal

    try:
        with file.open("rb") as stream:
            content = np.load(stream)
            single = isinstance(content, np.ndarray)
            arrays = {"x": content} if single else dict(content)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise Refusal(
            f"{file} cannot be read ({error}); give an .npz file written by "
            "np.savez(path, x=…), or one array in an .npy file"
        ) from None
    if not isinstance(arrays.get("x"), np.ndarray):
        raise Refusal(f"{file} has no array x; write it with np.savez(path, x=…)")
    x, y = inputs(str(file), arrays["x"]), arrays.get("y")
    if y is not None and np.shape(y) != (len(x),):
        raise Refusal(
            f"{file}: y has shape {np.shape(y)} but x holds {len(x)} examples"
        )
    return x, y


def _score(found: np.ndarray, y: np.ndarray | None, classes: int) -> dict[str, Any]:
    """Accuracy, or mean squared error for a regression; None without targets."""
    head = "accuracy" if classes else "error"
    if y is None:
        return {head: None}
    if classes == 2 and set(y.tolist()) <= {-1, 1}:  # as the data sets have them
        y = (y > 0).astype(int)
    return {head: float((found == y).mean() if classes else ((found - y) ** 2).mean())}


@app.command(name="bench")
def measure(
    quick: Annotated[bool, Flag("--quick", help="Only the small models.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the engine here, against a plain loop over the clients."""
    from troth import bench, display

    display.speeds(bench.measure(quick), as_json)
