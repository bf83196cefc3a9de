"""CelebA: faces of celebrities, each with 40 attributes.

References: liu2015celeba.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from troth.data.datasets import _room
from troth.data.datasets._files import Source, again, locate
from troth.data.datasets._pictures import picture
from troth.lookup import nearest
from troth.types import TEST, Arrays, Refusal

_ATTRIBUTES, _PERSONS = "list_attr_celeba.txt", "identity_CelebA.txt"
_PARTS = "list_eval_partition.txt"
_PICTURES = "img_align_celeba"
_CHUNK = 64  # pictures that a thread decodes at a time
_PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"

SOURCE = Source(
    name="celeba",
    folder="celeba",
    files=(_ATTRIBUTES, _PERSONS, _PARTS),
    page=_PAGE,
    licence="non-commercial research only; no copying beyond one's own organization",
    how=(
        "no program can download it (it is on Google Drive): agree to its "
        f"terms, for research only, and put {_ATTRIBUTES}, {_PERSONS}, {_PARTS} and "
        f"the folder {_PICTURES} out of img_align_celeba.zip"
    ),
)
_REMEDY = again(SOURCE)


def celeba(
    data_dir: str | None = None,
    *,
    label: str | list[str] = "Smiling",
    group: str = "",
    shortcut: str = "",
    side: int = 64,
    identities: int = 0,
    at_least: int = 1,
) -> Arrays:
    """CelebA: 202,599 faces of 10,177 persons in color, 40 attributes each.

    The function reads the publisher's `img_align_celeba/*.jpg` and three lists, or a
    subset with the same pictures in all lists. `owner` is the person. `y` is an
    attribute, 1 if it is present and 0 otherwise. `split` is the publisher's split, in
    which all pictures of a person are in the same part. If each person is a client,
    give partition.split as fractions.

    Pictures are resized to a square, as in LEAF (which uses 84 pixels).

    Args:
        data_dir: Folder to search first for the files.
        label: Name of one of the 40 attributes, or a list of them. For a list of L
            names, `y` is [m, L], and several attributes may be present at once.
        group: Attribute that becomes the `group` of examples; "": none.
        shortcut: Attribute that is correlated with the label without being its cause;
            "": none. An example is Blond_Hair with the label Male. Among the pictures
            with this attribute, those with the rarer label (such as blond men) get
            `group` 1 (conflicting). All others get 0 (aligned) (Wang et al. 2021,
            Appendix A). With partition.conflicting, conflicting examples form a second
            test set.
        side: Side of a picture in pixels.
        identities: Number of persons, beginning with the lowest numbers; 0: all. Only
            the pictures of these persons are read.
        at_least: Fewest pictures of a person; persons with fewer are left out. LEAF
            uses 5.

    Departs: pictures are resized bilinearly, with antialiasing. LEAF uses Pillow's
    default, which was the nearest pixel before Pillow 7 and has been bicubic since.
    """
    if not 8 <= side <= 512:
        raise Refusal(f"data.side = {side} must be 8 to 512 pixels")
    place = locate(SOURCE, data_dir)
    attributes, person, split = _table(place)
    labels = [label] if isinstance(label, str) else label
    if not labels or len({*labels}) < len(labels):
        raise Refusal(f"data.label = {label} must name attributes, each of them once")
    y = np.stack([_truth(attributes, "label", name) for name in labels], axis=1)
    if shortcut and (group or not isinstance(label, str) or shortcut == label):
        raise Refusal(
            f"data.shortcut = {shortcut!r} defines the group, and needs one label "
            f"that is another attribute; now data.label = {label!r} and data.group = "
            f"{group!r}: leave data.group out and name one label"
        )
    second = _truth(attributes, "group", group) if group else None
    rows = _chosen(person, identities, at_least)
    if shortcut:
        has = _truth(attributes, "shortcut", shortcut) == 1
        ones = y[rows, 0][has[rows]]
        rarer = int(2 * ones.sum() <= len(ones))
        second = (has & (y[:, 0] == rarer)).astype(np.int64)
    shape = (len(rows), 3, side, side)
    less = "lower data.side, or set data.identities to fewer persons"
    _room.check(f"{len(rows):,} pictures of {side}×{side}", shape, 1, less)
    x = _pixels(place / _PICTURES, [attributes.index[i] for i in rows], side)
    many = not isinstance(label, str)
    return Arrays(
        x,
        y[rows] if many else y[rows, 0],
        classes=len(labels) if many else 2,
        scale=255.0,
        owner=person[rows],
        group=None if second is None else second[rows],
        split=split[rows],
        labels=tuple(labels) if many else (),
    )


def _chosen(person: np.ndarray, identities: int, at_least: int) -> np.ndarray:
    """Return the rows of the chosen persons, in the order of the list."""
    if identities < 0 or at_least < 1:
        raise Refusal(
            f"data.identities = {identities} must be at least 0 (all persons) and "
            f"data.at_least = {at_least} at least 1"
        )
    persons, count = np.unique(person, return_counts=True)
    good = persons[count >= at_least]
    if len(good) < max(identities, 1):
        raise Refusal(
            f"data.at_least = {at_least} pictures leaves {len(good)} of {len(persons)} "
            f"persons where data.identities asks for {max(identities, 1)} (the most "
            f"pictures of a person are {count.max()}): lower one of the two"
        )
    return np.flatnonzero(np.isin(person, good[: identities or None]))


def _truth(attributes: Any, option: str, name: str) -> np.ndarray:
    """Return an attribute of every picture: 1 if it is present, and 0 otherwise."""
    known = list(attributes)
    if name not in known:
        raise Refusal(
            f"data.{option} = {name!r} is not an attribute of CelebA"
            f"{nearest(name, known)}; there are: {', '.join(known)}"
        )
    return np.where(attributes[name] == 1, 1, 0)


def _table(place: Path) -> tuple[Any, np.ndarray, np.ndarray]:
    """Read the three lists, which must have the same pictures in the same order.

    Returns:
        A pandas.DataFrame of the 40 attributes (1 or −1), the person of each picture,
        and its part (training, validation or test).
    """
    attributes = _list(place / _ATTRIBUTES, 1)
    names = list(attributes.index)
    if len(attributes.columns) != 40 or not attributes.isin((-1, 1)).all(axis=None):
        raise _other(place / _ATTRIBUTES, "not 40 attributes of 1 and -1 each")
    # A name such as ../../x would be a file outside the folder.
    if not attributes.index.astype(str).str.fullmatch(r"[0-9]{1,9}\.jpg").all():
        raise _other(place / _ATTRIBUTES, "names of pictures are digits and .jpg")
    if not attributes.index.is_unique:
        raise _other(place / _ATTRIBUTES, "a picture is named twice")
    person, split = (
        _numbers(place / file, names, most)
        for file, most in ((_PERSONS, 10**9), (_PARTS, TEST))
    )
    return attributes, person.astype(np.int64), split.astype(np.int8)


def _numbers(path: Path, names: list[str], most: int) -> np.ndarray:
    """Read a list of two columns: a picture, and a whole number of at most `most`."""
    rows = _list(path, None)
    if list(rows.index) != names:
        raise _other(path, f"its pictures are not those of {_ATTRIBUTES}")
    if [kind.kind for kind in rows.dtypes] != ["i"]:
        raise _other(path, "not a picture and a whole number in each line")
    numbers: np.ndarray = rows[1].to_numpy()
    if numbers.min() < 0 or numbers.max() > most:
        raise _other(path, f"numbers are 0 to {most}")
    return numbers


def _list(path: Path, header: int | None) -> Any:
    """Read a list of pictures and numbers as a pandas.DataFrame."""
    import pandas  # not at the top, because importing it is slow

    try:
        index = None if header else 0
        return pandas.read_csv(path, sep=r"\s+", header=header, index_col=index)
    except (OSError, ValueError) as error:
        raise _other(path, str(error).partition("\n")[0][:120]) from None


def _other(path: Path, why: str) -> Refusal:
    return Refusal(f"{path} is not the publisher's list ({why}): {_REMEDY}")


def _pixels(folder: Path, names: Sequence[str], side: int) -> np.ndarray:
    """Return pictures [m, 3, side, side], decoded in threads (Pillow frees the GIL)."""
    remedy = f"unpack img_align_celeba.zip again ({_PAGE})"
    size = picture(folder / names[0], "JPEG", None, remedy).size
    x = np.empty((len(names), 3, side, side), np.uint8)

    def decode(start: int) -> None:
        for i, name in enumerate(names[start : start + _CHUNK], start):
            opened = picture(folder / name, "JPEG", size, remedy).convert("RGB")
            small = opened.resize((side, side), Image.Resampling.BILINEAR)
            x[i] = np.asarray(small).transpose(2, 0, 1)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(decode, range(0, len(names), _CHUNK)))
    return x
