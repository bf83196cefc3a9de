"""Read the examples of a newcomer or a site, in the format of a run's data.

A newcomer is a client that joins after training, and a site a client of a real
federation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from troth import lookup
from troth.config.schema import Experiment
from troth.data import preprocess
from troth.data.datasets import _arrays, _table
from troth.data.datasets._table import MISSING, TRUTH, Column, listed, number, shown
from troth.types import Arrays, Refusal

Examples = str | Path | Mapping[str, Any]
"""An .npz file, or a dictionary with its arrays: x, y, optionally split and group. Or,
for a run on a table, a .csv file with the same columns."""


def read(e: Experiment, data: Examples) -> Arrays:
    """Read examples; raise Refusal if they do not fit the data of an experiment.

    Labels are numbers of classes, or names if the run has names of classes. With two
    classes, they may be −1 and 1. There need not be an example of every class.

    Args:
        e: the experiment, with recorded values in `resolved`. It need not have run.
        data: the examples.
    """
    facts = e.resolved
    if isinstance(data, Mapping):
        where, content = "data", {k: np.asarray(v) for k, v in data.items()}
        for key in ("x", "y"):
            if key not in content:
                raise Refusal(f'data lack {key}; give {{"x": inputs, "y": labels}}')
    elif str(data).lower().endswith(ENDINGS):
        where, content = str(data), _rows(e, Path(data))
    else:
        where, content = str(data), _arrays.read(str(data), "the data")
    x = _arrays.inputs(where, content["x"])
    _arrays.check_length(where, content, len(x))
    fits(e, x)
    split = _arrays.divided(where, content)
    group = _arrays.codes(where, "group", content)
    y = _targets(where, content["y"], facts)
    names = tuple(facts.get("features", ()))
    about = facts["classes"], facts["scale"]
    return Arrays(x, y, *about, group=group, split=split, names=names)


def _targets(where: str, y: np.ndarray, facts: Mapping[str, Any]) -> np.ndarray:
    """Return targets of a regression, or labels of the run's classes."""
    classes, several = facts["classes"], bool(facts.get("multi_label"))
    labels = list(facts.get("labels", []))
    if y.dtype.kind in "SU" and labels:
        y = _numbered(where, y.astype(str), labels)
    if classes == 2 and not several and y.dtype.kind == "i" and not (y == 0).any():
        y = np.where(y == -1, 0, y)  # labels −1 and 1, as many data sets have them
    _arrays.check_labels(where, "this run", y, classes, several)
    return y.astype(np.int64 if classes else np.float64)


def _numbered(where: str, y: np.ndarray, labels: list[str]) -> np.ndarray:
    """Replace names of classes by their numbers."""
    strange = sorted({*y.ravel().tolist()} - {*labels})
    if strange:
        raise Refusal(
            f"{where}: y holds '{strange[0]}', which is no class of this run; it "
            f"knows: {', '.join(labels)}"
        )
    place = {name: k for k, name in enumerate(labels)}
    return np.array([place[name] for name in y.ravel().tolist()]).reshape(y.shape)


def fits(e: Experiment, x: np.ndarray) -> None:
    """Raise Refusal if inputs do not fit the models of an experiment.

    Its recorded values in `resolved` have the shape of an input.
    """
    shape = tuple(e.resolved["shape"])
    if x.shape[1:] != shape:
        raise Refusal(
            f"inputs of shape {list(x.shape[1:])} do not fit this model, "
            f"which takes {list(shape)}"
        )
    bad = np.isnan(x).reshape(len(x), -1).any(axis=1)
    if bad.any() and not preprocess.active(e.features):
        raise Refusal(
            f"x is NaN in {bad.sum()} of {len(x)} examples, and this run does not "
            "fill them in: drop these examples, or train with features.name = 'own' or "
            "'federated'"
        )


ENDINGS = (".csv", ".csv.gz")


def examples(e: Experiment, path: str) -> dict[str, np.ndarray]:
    """Return the arrays x and y of a CSV file with names of columns in its first line.

    The keys `features`, `label` and `labels` of the section `deployment` describe the
    columns.
    """
    own = e.deployment
    if not own.features or not own.label:
        raise Refusal(
            f"{path} is a table, and all sites must encode theirs alike: set "
            "deployment.features to the features' names (age, or sex=f for a category) "
            "and deployment.label to the column to predict; or give an .npz file"
        )
    options = {"missing": MISSING, "label": own.label}
    x = encode(Path(path), own.features, options, gaps=preprocess.active(e.features))
    return {"x": x, "y": _labels(path, own.label, own.labels)}


def _rows(e: Experiment, path: Path) -> dict[str, np.ndarray]:
    """Return the arrays x and y of a table with the columns of a run's own table."""
    features, label = e.resolved.get("features"), e.data.options.get("label")
    if not features or not isinstance(label, str) or not label:
        raise Refusal(
            f"{path} is a table, but this run on '{e.data.name}' data has no names of "
            "columns to read it by; give an .npz file written by np.savez(path, x=…, "
            "y=…)"
        )
    x = encode(path, features, e.data.options, gaps=preprocess.active(e.features))
    names = list(e.resolved.get("labels", []))
    comma = e.data.options.get("delimiter", ",")
    return {"x": x, "y": _labels(str(path), label, names, "data", comma)}


def _labels(
    path: str,
    label: str,
    names: list[str],
    section: str = "deployment",
    delimiter: str = ",",
) -> np.ndarray:
    """Return the column to predict: names of classes, or numbers."""

    def plan(header: list[str]) -> dict[str, list[str]]:
        if label not in header:
            raise Refusal(
                f"{path} has no column '{shown(label)}', which {section}.label names; "
                f"there are: {listed(header)}"
            )
        return {label: MISSING}

    column = _table.read(path, delimiter, [], plan)[label]
    column.check_whole("")
    if names:
        return np.take(np.array(column.texts), column.codes)
    values = [number(text) for text in column.texts]
    if None in values:
        raise Refusal(
            f"{column.holds(values.index(None))}, which is no number; set "
            "deployment.labels to the names of the classes, in their order"
        )
    targets = np.array(values, dtype=np.float64)
    whole = bool((targets == targets.round()).all())
    return np.take(targets.astype(np.int64) if whole else targets, column.codes)


def encode(
    path: Path, features: Sequence[str], options: Mapping[str, Any], *, gaps: bool
) -> np.ndarray:
    """Return the inputs x [m, features] of a table in float32, by features' names.

    The feature "age" is the number in the column `age`, where true is 1, false is 0,
    and a missing value is NaN. The feature "sex=f" is 1 if the value in the column
    `sex` is `f`, and 0 otherwise. If a category is missing, or was not in the training
    data, all features of its column are 0. Other columns are ignored, and the order of
    columns does not matter.

    Args:
        path: the CSV file.
        features: names of the features, in order.
        options: options of the data set that the run was trained on.
        gaps: whether numbers may be missing; if not, missing numbers raise Refusal.
    """
    label = options.get("label", [])
    labels = [label] if isinstance(label, str) else label
    roles = (options.get(key, "") for key in ("owner", "group", "split"))
    aside = {*labels, *roles, *options.get("drop", [])}
    sources: list[tuple[str, str | None]] = []

    def plan(header: list[str]) -> dict[str, list[str]]:
        usable = Counter(name for name in header if name not in aside)
        sources.extend(_source(path, usable, name) for name in features)
        return dict.fromkeys(dict(sources), options.get("missing", [""]))

    table = _table.read(str(path), options.get("delimiter", ","), [], plan)
    inputs = []
    for name, category in sources:
        column = table[name]
        if category is None:
            inputs.append(_numbers(column, gaps))
        else:
            code = column.texts.index(category) if category in column.texts else -2
            inputs.append(column.codes == code)
    return np.stack(inputs, axis=1, dtype=np.float32)


def _source(path: Path, header: Counter[str], feature: str) -> tuple[str, str | None]:
    """Return the column and the category (or None) of a feature.

    Both may contain a "=". Raise Refusal if there is no such column.
    """
    parts = feature.split("=")
    cuts = [("=".join(parts[:i]), "=".join(parts[i:])) for i in range(1, len(parts))]
    ways: list[tuple[str, str | None]] = [*cuts, (feature, None)]
    ways = [way for way in ways if way[0] in header]
    if not ways:
        name, there = shown(parts[0]), list(map(shown, header))
        raise Refusal(
            f"{path} has no column '{name}', which this run was trained on"
            f"{lookup.nearest(name, there)}; its first line must "
            f"name its columns, and there are: {listed(there)}"
        )
    if len(ways) > 1 or header[ways[0][0]] > 1:
        raise Refusal(
            f"{path} has several columns that may be the feature '{shown(feature)}' of "
            f"this run: {listed([name for name, _ in ways])}; keep one"
        )
    return ways[0]


def _numbers(column: Column, gaps: bool) -> np.ndarray:
    """Return a column [m] of numbers or of true and false; missing values are NaN."""
    short = _table.float32([TRUTH.get(t.lower(), number(t)) for t in column.texts])
    if (bad := ~np.isfinite(short[:-1])).any():
        raise Refusal(
            f"{column.holds(int(bad.argmax()))}, and this run needs a finite number "
            "there: correct it"
        )
    if not gaps:
        remedy = ", or train with features.name = 'own' or 'federated', for this run "
        column.check_whole(f"{remedy}does not fill them in")
    return np.take(short, column.codes)
