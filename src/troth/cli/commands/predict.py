"""`troth predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import Folder, Json
from troth.cli.commands._opening import check_free, opened

if TYPE_CHECKING:
    import numpy as np

    from troth.config.schema import Experiment

_TABLES = (".csv", ".tsv", ".txt", ".gz")


def predict(
    path: Folder,
    data: Annotated[
        Path, Flag(help=".npz with x (and y, to be checked), .npy, or .csv as trained.")
    ],
    client: Annotated[
        int | None, Flag(help="Whose model; the first client is 0.")
    ] = None,
    model: Annotated[
        Path | None, Flag(help="A newcomer's model, as troth personalize wrote it.")
    ] = None,
    out: Annotated[Path | None, Flag(help="Write a new .csv file.")] = None,
    as_json: Json = False,
) -> None:
    """Predict with a client's own model: one line per example on stdout."""
    from troth import files
    from troth.cli import tables
    from troth.runs.compare import number
    from troth.types import Refusal

    run = opened(path)
    whose = client if model is None else model
    if whose is None or None not in (client, model):
        raise Refusal(
            "say whose model predicts: --client NUMBER for a client of the run, or "
            "--model FILE for a newcomer's, and not both"
        )
    check_free(out)
    table = data.suffix.lower() in _TABLES
    x, y = (_encoded(data, run.experiment), None) if table else _examples(data)
    found, facts = run.predict(whose, x), run.experiment.resolved
    score = _score(found, y, facts["classes"])
    labels = facts.get("labels", [])
    names = _names(found, labels)
    if out is not None:
        columns = _columns(found, labels) | ({"name": names} if names else {})
        files.write_csv(out, {"example": list(range(len(x))), **columns})
    if as_json:
        who = {"model": model} if client is None else {"client": client}
        told = {"names": names} if names else {}
        tables.print_json({**who, "predictions": found, **score, **told})
    elif out is None:
        rows = names or found.tolist()
        print("\n".join(map(_line, rows)))
    for head, value in score.items():
        if value is not None:
            tables.say(f"{head} {number(value, head)} on {len(x)} examples")


def _encoded(file: Path, e: Experiment) -> np.ndarray:
    """A table's rows as the run had its own."""
    from troth.data.datasets._encoding import encode
    from troth.data.preprocess import active
    from troth.types import Refusal

    features = e.resolved.get("features", [])
    if not features:
        raise Refusal(
            f"{file} is a table, and this run on '{e.data.name}' data has no names of "
            "features to read it by; give an .npz file written by np.savez(path, x=…)"
        )
    return encode(file, features, e.data.options, gaps=active(e.features))


def _names(found: np.ndarray, labels: list[str]) -> list[str]:
    """The names of predicted classes; none where the run has no names."""
    if not labels or found.ndim > 1:
        return []
    return [labels[k] for k in found.tolist()]


def _line(row: Any) -> str:
    """A prediction on a line; names may have come with line breaks."""
    if isinstance(row, list):
        return " ".join(map(str, row))
    return " ".join(row.split()) if isinstance(row, str) else str(row)


def _examples(file: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Inputs as a data set of one's own would have them, and targets if there are."""
    import zipfile
    import zlib

    import numpy as np

    from troth.data.datasets._arrays import inputs
    from troth.types import Refusal

    try:
        with file.open("rb") as stream:
            content = np.load(stream)
            single = isinstance(content, np.ndarray)
            arrays = {"x": content} if single else dict(content)
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        # numpy takes any other file for a pickle, and tells how to trust it
        why = "it holds no plain arrays" if "pickle" in str(error) else error
        raise Refusal(
            f"{file} cannot be read ({why}); give an .npz file written by "
            "np.savez(path, x=…), or one array in an .npy file"
        ) from None
    if not isinstance(arrays.get("x"), np.ndarray):
        raise Refusal(f"{file} has no array x; write it with np.savez(path, x=…)")
    x, y = inputs(str(file), arrays["x"]), arrays.get("y")
    if y is not None and np.shape(y)[:1] != (len(x),):
        raise Refusal(
            f"{file}: y has shape {np.shape(y)} but x holds {len(x)} examples"
        )
    return x, y


def _columns(found: np.ndarray, names: list[str]) -> dict[str, Any]:
    """What is written of predictions: a column, or one for each of several labels."""
    if found.ndim == 1:
        return {"prediction": found.tolist()}
    every = names or list(map(str, range(found.shape[1])))
    return {f"prediction {name}": found[:, j].tolist() for j, name in enumerate(every)}


def _score(found: np.ndarray, y: np.ndarray | None, classes: int) -> dict[str, Any]:
    """Accuracy, or mean squared error for a regression; None without targets."""
    from troth.types import Refusal

    head = "accuracy" if classes else "error"
    if y is None:
        return {head: None}
    if y.shape != found.shape:
        raise Refusal(
            f"y has shape {y.shape} and the predictions {found.shape}; give y that "
            "shape, or leave it out"
        )
    if classes == 2 and y.ndim == 1 and set(y.tolist()) <= {-1, 1}:  # as data have it
        y = (y > 0).astype(int)
    return {head: float((found == y).mean() if classes else ((found - y) ** 2).mean())}
