"""The command `troth predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import Folder, Json, check_free, opened
from troth.cli.commands._words import refuse

if TYPE_CHECKING:
    import numpy as np

    from troth.config.schema import Experiment

_TABLES = (".csv", ".tsv", ".txt", ".gz")


def predict(
    path: Folder,
    data: Annotated[
        Path,
        Flag(
            help=".npz with x (and y, to score the predictions), .npy with x, or .csv "
            "with named columns."
        ),
    ],
    client: Annotated[
        int | None, Flag(help="Client whose model predicts. The first client is 0.")
    ] = None,
    model: Annotated[
        Path | None, Flag(help="Model file written by troth personalize.")
    ] = None,
    out: Annotated[Path | None, Flag(help="New .csv file for the predictions.")] = None,
    as_json: Json = False,
) -> None:
    """Predict with a client's own model, one line per example."""
    from troth import files
    from troth.cli import tables
    from troth.runs.compare import number

    run = opened(path)
    whose = client if model is None else model
    if whose is None or None not in (client, model):
        refuse(
            "choose one model: --client NUMBER for a client of the run, or --model "
            "FILE for one written by troth personalize"
        )
    check_free(out)
    table = data.suffix.lower() in _TABLES
    x, y = (_encoded(data, run.experiment), None) if table else _examples(data)
    predicted, facts = run.predict(whose, x), run.experiment.resolved
    score = _score(predicted, y, facts["classes"])
    labels = facts.get("labels", [])
    single = bool(labels) and predicted.ndim == 1
    names = [labels[k] for k in predicted.tolist()] if single else []
    if out is not None:
        columns = _columns(predicted, labels) | ({"name": names} if names else {})
        files.write_csv(out, {"example": list(range(len(x))), **columns})
    if as_json:
        who = {"model": model} if client is None else {"client": client}
        named = {"names": names} if names else {}
        tables.print_json({**who, "predictions": predicted, **score, **named})
    elif out is None:
        print("\n".join(map(_line, names or predicted.tolist())))
    for head, value in score.items():
        if value is not None:
            tables.say(f"{head} {number(value, head)} on {len(x)} examples")


def _encoded(file: Path, e: Experiment) -> np.ndarray:
    """Read the rows of a table, and encode them like the run's training data."""
    from troth.data.preprocess import active
    from troth.data.user_files import encode

    if features := e.resolved.get("features"):
        return encode(file, features, e.data.options, gaps=active(e.features))
    refuse(
        f"{file} is a table, but this run on '{e.data.name}' data has no feature "
        "names to read it by; give an .npz file written by np.savez(path, x=…)"
    )


def _line(row: Any) -> str:
    """Return a prediction as one line, without line breaks that names may contain."""
    parts = row if isinstance(row, list) else str(row).split()
    return " ".join(map(str, parts))


def _examples(file: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Read inputs, and targets (None if the file has none)."""
    import zipfile
    import zlib

    import numpy as np

    from troth.data.datasets._arrays import inputs

    try:
        with file.open("rb") as stream:
            content = np.load(stream)
            single = isinstance(content, np.ndarray)
            arrays = {"x": content} if single else dict(content)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        # numpy takes every unknown file for a pickle, and its message is about that
        why = "it holds no plain arrays" if "pickle" in str(error) else error
        refuse(
            f"{file} cannot be read ({why}); give an .npz file written by "
            "np.savez(path, x=…), or one array in an .npy file"
        )
    if not isinstance(arrays.get("x"), np.ndarray):
        refuse(f"{file} has no array x; write it with np.savez(path, x=…)")
    x, y = inputs(str(file), arrays["x"]), arrays.get("y")
    if y is not None and np.shape(y)[:1] != (len(x),):
        refuse(f"{file}: y has shape {np.shape(y)} but x holds {len(x)} examples")
    return x, y


def _columns(predicted: np.ndarray, names: list[str]) -> dict[str, Any]:
    """Return one column of predictions or, for several labels, one column per label."""
    if predicted.ndim == 1:
        return {"prediction": predicted.tolist()}
    every = names or list(map(str, range(predicted.shape[1])))
    named = zip(every, predicted.T.tolist(), strict=True)
    return {f"prediction {name}": column for name, column in named}


def _score(predicted: np.ndarray, y: np.ndarray | None, classes: int) -> dict[str, Any]:
    """Return the accuracy or, for regression, the mean squared error, by its name.

    If there are no targets, the value is None.
    """
    head = "accuracy" if classes else "error"
    if y is None:
        return {head: None}
    if y.shape != predicted.shape:
        refuse(
            f"y has shape {y.shape} and the predictions have {predicted.shape}; give "
            "y the shape of the predictions, or leave y out"
        )
    # some data sets have the labels −1 and 1
    if classes == 2 and y.ndim == 1 and set(y.tolist()) <= {-1, 1}:
        y = (y > 0).astype(int)
    values = predicted == y if classes else (predicted - y) ** 2
    return {head: float(values.mean())}
