"""Read a user's arrays from an .npz file, and check each array.

In all functions, `path` is the name of the file for error messages.
"""

import math
import zipfile
import zlib

import numpy as np

from troth.data.datasets import _files
from troth.types import TEST, TRAIN, VALID, Arrays, Refusal

KEYS = ("x", "y", "owner", "group", "split")
_PARTS = {"train": TRAIN, "valid": VALID, "test": TEST}
_BROKEN = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile)
_LOCKED = (NotImplementedError, RuntimeError)  # unknown compression, or a password


def read(
    path: str, option: str = "data.path", keys: tuple[str, ...] = KEYS
) -> dict[str, np.ndarray]:
    """Read arrays of an .npz file, without unpickling anything.

    Args:
        path: the file.
        option: option with the path, for error messages.
        keys: names of the arrays to read, if they exist. Without x or y, Refusal is
            raised.
    """
    remedy = f"set {option} to an .npz file written by np.savez(path, x=…, y=…)"
    place = _files.own_file(path, remedy)
    try:
        with open(place, "rb") as file:
            loaded = np.load(file)
            if isinstance(loaded, np.ndarray):
                raise ValueError("it is a single array, .npy")
            with loaded:
                there = list(loaded)
                content = {key: loaded[key] for key in keys if key in there}
            if not all(isinstance(values, np.ndarray) for values in content.values()):
                raise ValueError("it is a zip of other things")
    except (*_BROKEN, *_LOCKED) as error:
        if "Object arrays" in str(error):
            raise Refusal(
                f"{path} holds Python objects, which could run code when read: save "
                "plain arrays of numbers or texts, each with a dtype of its own"
            ) from None
        # numpy takes every unknown file for a pickle
        why = "it holds no arrays" if "pickle" in str(error) else error
        raise Refusal(
            f"{path} is not a whole .npz file ({why}): write it again with "
            "np.savez(path, x=…, y=…)"
        ) from None
    for key in ("x", "y"):
        if key not in content:
            raise Refusal(
                f"{path} lacks the array {key} (it holds: "
                f"{', '.join(there) or 'none'}); write it with np.savez(path, x=…, y=…)"
            )
    return content


Classes = int | list[str]
"""The option `classes`: number or names of the classes; 0: those in the labels."""


def assembled(
    path: str,
    content: dict[str, np.ndarray],
    scale: float = 0.0,
    classes: Classes = 0,
) -> Arrays:
    """Check the arrays x, y (and owner, group, split), and return them as a data set.

    Args:
        path: name of the file, for error messages.
        content: the arrays by name.
        scale: value of x that is scaled to 1; 0: 255 for bytes, otherwise 1.
        classes: number or names of the classes; 0: those in the labels.
    """
    x = inputs(path, content["x"])
    check_length(path, content, len(x))
    y, number, labels = targets(path, content["y"], classes)
    if not (scale >= 0 and math.isfinite(scale)):
        raise Refusal(
            f"data.scale = {scale} must be the value of x that is scaled to 1, such as "
            "255, or 0 for automatic"
        )
    text = "owner" in content and content["owner"].dtype.kind in "SU"
    return Arrays(
        x,
        y,
        number,
        scale=scale or (255.0 if x.dtype == np.uint8 else 1.0),
        owner=codes(path, "owner", content),
        group=codes(path, "group", content),
        split=divided(path, content),
        labels=tuple(labels),
        owners=tuple(np.unique(content["owner"].astype(str)).tolist()) if text else (),
    )


Targets = tuple[np.ndarray, int, list[str]]
"""y, the number of classes (0: regression), and names of the classes (may be empty)."""


def targets(path: str, y: np.ndarray, classes: Classes) -> Targets:
    """Return y as labels 0 … C−1, or as the targets of a regression."""
    check_classes(classes)
    if y.ndim == 2:
        return _several(path, y, classes)
    if y.dtype.kind in "SU":
        return named(path, y.astype(str), classes)
    if y.dtype.kind == "f" and not classes:
        finite(path, "y", y)
        kind = np.float64 if y.dtype.itemsize >= 8 else np.float32
        return y.astype(kind), 0, []
    if y.dtype.kind not in "biu":
        remedy = "whole numbers (labels), texts, or fractional numbers (targets)"
        if classes:
            remedy = f"whole numbers or names, because data.classes = {classes}"
        raise Refusal(
            f"{path}: y is {y.dtype}; it must be {remedy}: relabel with "
            "np.unique(y, return_inverse=True)[1]"
        )
    number = classes if isinstance(classes, int) else len(classes)
    names = [] if isinstance(classes, int) else classes
    labels = np.unique(y)
    if labels.tolist() == [-1, 1] and number in (0, 2):
        return (y > 0).astype(np.int64), 2, names
    if number:
        check_range(path, labels, number)
    elif len(labels) < 2 or labels[0] != 0 or labels[-1] != len(labels) - 1:
        some = ", ".join(str(int(label)) for label in labels[:8])
        raise Refusal(
            f"{path}: y holds the labels {some}{' …' if len(labels) > 8 else ''}; they "
            "must be 0 to C-1 with none left out, C at least 2 (or -1 and 1): set "
            "data.classes to C if some classes have no example, relabel with "
            "np.unique(y, return_inverse=True)[1], or store targets of a regression as "
            "float32"
        )
    return y.astype(np.int64), number or len(labels), names


def check_classes(classes: Classes) -> None:
    """Raise Refusal if the option `classes` is not valid."""
    names = [] if isinstance(classes, int) else classes
    number = classes if isinstance(classes, int) else len(names)
    if classes != 0 and (number < 2 or len({*names}) < len(names)):
        raise Refusal(
            f"data.classes = {classes!r} must be the number of classes, at least 2, or "
            "the list of their names, each once; 0: those that occur in the labels"
        )


def check_range(path: str, labels: np.ndarray, number: int) -> None:
    """Raise Refusal if labels are outside 0 … C−1; `number` is C."""
    if len(strange := labels[(labels < 0) | (labels >= number)]):
        some = ", ".join(map(str, strange[:4].tolist()))
        raise Refusal(
            f"{path}: y holds the labels {some}, and data.classes gives {number} "
            f"classes, 0 to {number - 1}: raise data.classes, or relabel them"
        )


def named(path: str, y: np.ndarray, classes: Classes) -> Targets:
    """Convert texts to labels, numbered in sorted order or by `classes`."""
    there = np.unique(y).tolist()
    names = there if classes == 0 else classes
    if isinstance(names, int):
        raise Refusal(
            f"{path}: y holds texts such as '{there[0]}': set data.classes to the list "
            "of the names of all classes, in their order"
        )
    if strange := [text for text in there if text not in names]:
        raise Refusal(
            f"{path}: y holds '{strange[0]}', which is not in data.classes; there are: "
            f"{', '.join(names)}"
        )
    if len(names) < 2:
        raise Refusal(
            f"{path}: y is '{there[0]}' in every example, so that there is nothing to "
            "learn: set data.classes to the names of all classes"
        )
    place = {name: k for k, name in enumerate(names)}
    return np.array([place[text] for text in y.tolist()], np.int64), len(names), names


def _several(path: str, y: np.ndarray, classes: Classes) -> Targets:
    """Check a y with several labels per example, [m, L] of 0 and 1, and return it."""
    if y.dtype.kind not in "biu" or not np.isin(y, (0, 1)).all():
        raise Refusal(
            f"{path}: y has shape {y.shape} and type {y.dtype}; several labels per "
            "example must be whole numbers 0 and 1, one column per label, and a "
            f"regression has one target per example, shape ({len(y)},)"
        )
    names = [] if isinstance(classes, int) else classes
    if classes and (len(names) or classes) != y.shape[1]:
        raise Refusal(
            f"{path}: y has {y.shape[1]} columns, one per label, and data.classes = "
            f"{classes!r}; give as many classes, or 0"
        )
    return y.astype(np.int64), y.shape[1], names


def inputs(path: str, x: np.ndarray) -> np.ndarray:
    """Check the inputs x, and convert them to bytes, float32 or float64.

    Images of bytes get the axes [m, channels, height, width].
    """
    if x.dtype.kind not in "biuf":
        raise Refusal(f"{path}: x is {x.dtype}; it must be an array of real numbers")
    if x.ndim < 2 or x.size == 0:
        raise Refusal(
            f"{path}: x has shape {x.shape}; it must be [examples, features …] with at "
            "least one example (a single feature is x.reshape(-1, 1))"
        )
    if x.dtype.kind == "f" and np.isinf(x).any():
        finite(path, "x", x)
    if x.dtype != np.uint8:
        wide = x.dtype.kind == "f" and x.dtype.itemsize >= 8
        return np.ascontiguousarray(x, np.float64 if wide else np.float32)
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x)


def check_length(path: str, content: dict[str, np.ndarray], m: int) -> None:
    """Raise Refusal if an array does not have one entry per example of x.

    The array y may have several labels per example.
    """
    for key in [key for key in KEYS[1:] if key in content]:
        shape = content[key].shape
        several = key == "y" and len(shape) == 2 and shape[1] > 1
        if shape != (m, *shape[1:2]) if several else shape != (m,):
            raise Refusal(
                f"{path}: {key} has shape {shape} but x holds {m} examples; give {key} "
                f"one value per example, shape ({m},)"
            )


def check_labels(
    path: str, who: str, y: np.ndarray, classes: int, several: bool
) -> None:
    """Raise Refusal if labels or targets do not fit a data set or run.

    Args:
        path: file of the labels, for the error message.
        who: name of the data set or run, for the error message.
        y: the labels or targets.
        classes: number of classes; 0: targets of a regression.
        several: whether an example may have several labels.
    """
    shape = (len(y), classes) if several else (len(y),)
    kind = (
        f"{classes} labels (several per example)" if several else f"{classes} classes"
    )
    kind = kind if classes else "targets, no classes"
    if y.shape != shape or y.dtype.kind not in ("biu" if classes else "biuf"):
        raise Refusal(
            f"{path}: y is {y.dtype} of shape {list(y.shape)}, and {who} has {kind}; "
            f"give {'whole ' * (classes > 0)}numbers of shape {list(shape)}"
        )
    finite(path, "y", y)
    most = 1 if several else classes - 1
    if classes and len(strange := np.unique(y[(y < 0) | (y > most)])):
        some = ", ".join(map(str, strange[:4].tolist()))
        raise Refusal(
            f"{path}: y holds {some}, which {who} does not know; it has {kind}, 0 to "
            f"{most}: leave such examples out"
        )


def finite(path: str, key: str, values: np.ndarray) -> None:
    """Raise Refusal if an array has NaN or infinity; `key` is its name."""
    if values.dtype.kind == "f" and not (fine := np.isfinite(values)).all():
        rows = np.flatnonzero(~fine.reshape(len(values), -1).all(axis=1))
        raise Refusal(
            f"{path}: {key} is NaN or infinite in {len(rows)} of {len(values)} "
            f"examples (first in row {rows[0]}); drop these rows or fill them in"
        )


def codes(path: str, key: str, content: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return the array `key` (owners or groups) as int64, or None if there is none.

    Texts are numbered in sorted order.
    """
    if key not in content:
        return None
    values = content[key]
    if values.dtype.kind in "SU":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    if values.dtype.kind in "biu":
        return values.astype(np.int64)
    raise Refusal(f"{path}: {key} is {values.dtype}; give whole numbers or texts")


def divided(path: str, content: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return the array `split` as int8 (TRAIN, VALID, TEST); None if there is none."""
    if "split" not in content:
        return None
    values = content["split"]
    whole = values.dtype.kind in "iuSU"
    return marks(f"{path}: split", values.astype(str) if whole else values)


def marks(where: str, words: np.ndarray) -> np.ndarray:
    """Convert "train", "valid" and "test", or their numbers as texts, to int8.

    Raise Refusal for any other text; `where` says in the error message where it is.
    """
    known = {**_PARTS, **{str(mark): mark for mark in _PARTS.values()}}
    strange = np.unique(words[~np.isin(words, list(known))])
    if len(strange):
        some = ", ".join(map(str, strange[:4]))
        raise Refusal(
            f"{where} holds {some}; it must be 0, 1, 2 or 'train', 'valid', 'test'"
        )
    return np.array([known[word] for word in words.tolist()], np.int8)
