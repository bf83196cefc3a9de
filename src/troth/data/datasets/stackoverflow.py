"""Stack Overflow: predict the tags of a question from a sentence; owners are users.

References: tff2019stackoverflow, li2021ditto.
"""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

from troth.data.datasets import _room
from troth.data.datasets._files import Remote, Source, again, locate, text
from troth.types import Arrays, Refusal

_TRAIN = "stackoverflow_train.h5"
_WORDS, _TAGS = "stackoverflow.word_count", "stackoverflow.tag_count"
_ROOT = "https://storage.googleapis.com/tff-datasets-public"
_PAGE = (
    "https://www.tensorflow.org/federated/api_docs/python/tff/simulation/datasets/"
    "stackoverflow"
)

SOURCE = Source(
    name="stackoverflow",
    folder="stackoverflow",
    files=(_TRAIN, _WORDS, _TAGS),
    page=_PAGE,
    licence="CC BY-SA 3.0",
    remotes=(
        Remote(
            f"{_ROOT}/{_WORDS}.tar.bz2",
            "sha256:1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c",
            makes=(_WORDS,),
        ),
        Remote(
            f"{_ROOT}/{_TAGS}.tar.bz2",
            "sha256:6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d",
            makes=(_TAGS,),
        ),
        Remote(
            f"{_ROOT}/stackoverflow.tar.bz2",
            "sha256:99eca2f8b8327a09e5fc123979df2d237acbc5e52322f6d86bf523ee47b961a2",
            makes=(_TRAIN,),
        ),
    ),
)
_REMEDY = again(SOURCE)


Client = tuple[Any, np.ndarray, list[list[int]]]
"""Group of the HDF5 file, rows of it that are used, and their tags (as numbers)."""


def stackoverflow(
    data_dir: str | None = None,
    *,
    clients: int = 400,
    examples: int = 10_000,
    words: int = 10_000,
    tags: int = 500,
    label: Literal["first", "tags"] = "first",
    untagged: Literal["keep", "drop"] = "keep",
) -> Arrays:
    """Stack Overflow (TFF): sentences of users as bags of words, tags as labels.

    The function reads the HDF5 file of TensorFlow Federated (TFF) with 342,477 training
    clients (users), and takes the first `clients` in the sorted order of their ids. The
    vocabularies are the most frequent words and tags by TFF's counts. `x` [m, words] is
    the number of times that each word occurs in a sentence and in the title of its
    question, divided by the number of all their words. `owner` is the client. There is
    no published split of a client's examples. Needs `pip install 'troth[hdf5]'`.

    Args:
        data_dir: Folder to search first for the files.
        clients: Number of clients; Ditto uses 400.
        examples: Largest number of examples of a client. If it has more, the first ones
            are used.
        words: Number of words in the vocabulary; an example takes 4 bytes per word.
        tags: Number of tags in the vocabulary.
        label: Label of an example: its "first" (most frequent) tag, as in the code of
            Ditto's authors, or all its "tags". With "tags", `y` is [m, tags].
        untagged: Treatment of examples without a tag of the vocabulary: "keep" or
            "drop". With "keep", they have the label 0, that of the most frequent tag,
            as in the authors' code. With label "tags", they have no tag.

    Departs: an example without words is all 0 (NaN in the authors' code). Nothing is
    shuffled, because the partition draws the split. If a client has more than 10,000
    examples, the first 10,000 are used. The authors' code, by mistake, uses only those
    that remain after groups of 10,000.
    """
    _room.at_least_1(clients=clients, examples=examples, words=words, tags=tags)
    try:
        import h5py
    except ImportError:
        raise Refusal(
            "data 'stackoverflow' needs h5py, which is not installed: pip install "
            "'troth[hdf5]'"
        ) from None
    place = locate(SOURCE, data_dir)
    known_words, known_tags = _words(place / _WORDS, words), _tags(place / _TAGS, tags)
    path = place / _TRAIN
    try:
        with h5py.File(path, "r") as file:
            groups = file["examples"]
            if len(ids := sorted(groups)) < clients:
                raise Refusal(
                    f"data.clients = {clients} but {path} holds {len(ids)}: set "
                    "data.clients to at most that"
                )
            held = (groups[name] for name in ids[:clients])
            chosen = [_chosen(one, examples, known_tags, untagged) for one in held]
            x = _bags(chosen, known_words, words)
    except Refusal:
        raise
    except Exception as error:  # h5py raises many types for malicious files
        why = (str(error) or type(error).__name__)[:120]
        raise Refusal(f"{path} is not TFF's complete file ({why}): {_REMEDY}") from None
    owner = np.repeat(np.arange(clients), [len(rows) for _, rows, _ in chosen])
    borne = [places for _, _, each in chosen for places in each]
    if label == "first":
        y = np.array([min(places, default=0) for places in borne], np.int64)
    else:
        y = np.zeros((len(x), tags), np.int64)
        for row, places in zip(y, borne, strict=True):
            row[places] = 1
    return Arrays(x, y, classes=tags, owner=owner)


def _words(path: Path, count: int) -> dict[bytes, int]:
    """Return word → rank of the most frequent words.

    Each line of the file has a word and its count.
    """
    with open(path, "rb") as file:
        lines = [file.readline(2**16).split() for _ in range(count)]
    words = [line[0] for line in lines if len(line) == 2 and line[1].isdigit()]
    return _places(path, words, count, "words")


def _tags(path: Path, count: int) -> dict[bytes, int]:
    """Return tag → rank of the most frequent tags, from a JSON file of tag → count."""
    try:
        content = json.loads(text(path, _REMEDY))
        ranked = sorted(content, key=lambda tag: -content[tag])
    except (TypeError, ValueError, RecursionError) as error:
        raise Refusal(
            f"{path} is not a complete JSON table of tags and their counts ({error}): "
            f"{_REMEDY}"
        ) from None
    return _places(path, [tag.encode() for tag in ranked[:count]], count, "tags")


def _places(path: Path, texts: list[bytes], count: int, what: str) -> dict[bytes, int]:
    places = {word: place for place, word in enumerate(texts)}
    if len(places) < count:
        raise Refusal(
            f"{path} holds {len(places)} {what} where data.{what} = {count} asks for "
            f"more: lower it, or {_REMEDY}"
        )
    return places


def _chosen(
    group: Any, examples: int, known: dict[bytes, int], untagged: str
) -> Client:
    """Choose the examples of a client that are used."""
    lines = group["tags"][:examples]
    tags = [[known[tag] for tag in line.split(b"|") if tag in known] for line in lines]
    rows = [i for i, its in enumerate(tags) if its or untagged == "keep"]
    return group, np.array(rows, np.int64), [tags[i] for i in rows]


def _bags(chosen: list[Client], known: dict[bytes, int], words: int) -> np.ndarray:
    """Return the inputs x: relative frequencies of words in the chosen examples."""
    m = sum(len(rows) for _, rows, _ in chosen)
    if m == 0:
        raise Refusal(
            "no example is left: set data.untagged = 'keep', or raise data.tags or "
            "data.clients"
        )
    less = "lower data.clients, data.examples or data.words"
    _room.check(f"{m:,} examples of {words:,} words", (m, words), 4, less)
    x = np.zeros((m, words), np.float32)
    bags = iter(x)
    for group, rows, _ in chosen:
        most = int(rows.max(initial=-1)) + 1
        bodies, titles = group["tokens"][:most], group["title"][:most]
        for i in rows:
            texts = b" ".join([bodies[i], titles[i]]).split()
            bag = next(bags)
            places = [known[word] for word in texts if word in known]
            np.add.at(bag, np.array(places, np.intp), 1)
            bag /= max(len(texts), 1)
    return x
