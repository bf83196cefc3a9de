import json
import sys

import numpy as np
import pytest

from troth import devices
from troth.data.datasets import _room
from troth.data.datasets.stackoverflow import stackoverflow

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.usefixtures("offline")

WORDS = ["the", "a", "sql", "median", "css", "in"]
TAGS = {"css": 5, "sql": 90, "java": 40, "median": 40, "git": 7}  # in no order
# sorted by count, ties as they stand: sql, java, median, git, css
CLIENTS = {
    "00002": [("css does the the", "css in", "css|html"), ("", "", "git")],
    "00001": [
        ("the median in sql", "median of sql", "median|sql|java"),
        ("nothing known here", "", "html"),
        ("a", "the", "java|css"),
    ],
    "00010": [("a", "a", "html|perl")],
}

SMALL = {"clients": 3, "words": 6, "tags": 5}


def write(folder, clients=CLIENTS):
    """TFF's three files, the HDF5 one with texts of any length."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = [f"{word}\t{99 - i}\n" for i, word in enumerate(WORDS)]
    (folder / "stackoverflow.word_count").write_text("".join(counts))
    (folder / "stackoverflow.tag_count").write_text(json.dumps(TAGS))
    texts = h5py.special_dtype(vlen=bytes)
    with h5py.File(folder / "stackoverflow_train.h5", "w") as file:
        for name, rows in clients.items():
            group = file.create_group(f"examples/{name}")
            for key, at in (("tokens", 0), ("title", 1), ("tags", 2)):
                column = [row[at].encode() for row in rows]
                group.create_dataset(key, data=column, dtype=texts)
            for key in ("creation_date", "type"):
                group.create_dataset(key, data=[b"x"] * len(rows), dtype=texts)
            group.create_dataset("score", data=np.arange(len(rows)))
    return folder


@pytest.fixture
def place(tmp_path):
    return write(tmp_path / "stackoverflow")


def test_bags_of_words_by_hand(place):
    arrays = stackoverflow(str(place.parent), **SMALL)
    assert arrays.x.shape == (6, 6) and arrays.x.dtype == np.float32
    expected = [
        [1, 0, 2, 2, 0, 1],  # the median in sql median of sql: 7 words, one unknown
        [0, 0, 0, 0, 0, 0],  # three words, none known
        [1, 1, 0, 0, 0, 0],
        [2, 0, 0, 0, 2, 1],  # css does the the css in: 6 words, one unknown
        [0, 0, 0, 0, 0, 0],  # no word at all
        [0, 2, 0, 0, 0, 0],
    ]
    lengths = np.array([7, 3, 2, 6, 1, 2], np.float32)
    assert np.array_equal(arrays.x * lengths[:, None], np.array(expected, np.float32))
    # clients in sorted order of their ids: 00001, 00002, 00010
    assert arrays.owner.tolist() == [0, 0, 0, 1, 1, 2]
    # the most frequent of the tags (sql, java, median, git, css); 0 where none is known
    assert arrays.y.tolist() == [0, 0, 1, 4, 3, 0]
    assert arrays.y.dtype == np.int64 == arrays.owner.dtype
    assert arrays.classes == 5 and arrays.split is None and arrays.group is None
    whole = stackoverflow(str(place), **SMALL)
    some = stackoverflow(str(place), **SMALL, untagged="drop")
    kept = [0, 2, 3, 4]
    assert some.y.tolist() == whole.y[kept].tolist()
    assert np.array_equal(some.x, whole.x[kept])
    assert some.owner.tolist() == [0, 0, 1, 1]  # of the third nothing is left


def test_all_tags_at_once(place):
    arrays = stackoverflow(str(place), clients=3, words=6, tags=4, label="tags")
    assert arrays.y.tolist() == [
        [1, 1, 1, 0],
        [0, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 0, 0],  # css is the fifth
        [0, 0, 0, 1],
        [0, 0, 0, 0],
    ]
    assert arrays.y.dtype == np.int64 and arrays.classes == 4


def test_the_first_clients_examples_and_tags(place):
    """The authors' label: argmax of the tags as zeros and ones."""
    for tags in (1, 3, 5):
        every = stackoverflow(str(place), clients=3, words=2, tags=tags, label="tags").y
        first = stackoverflow(str(place), clients=3, words=2, tags=tags).y
        assert first.tolist() == every.argmax(1).tolist()
    arrays = stackoverflow(str(place), clients=2, examples=1, words=6, tags=5)
    assert arrays.owner.tolist() == [0, 1] and arrays.y.tolist() == [0, 4]
    few = stackoverflow(str(place), clients=1, words=1, tags=1)
    assert few.x[:, 0].tolist() == pytest.approx([1 / 7, 0, 1 / 2])


def test_refuses_options(place, refuses):
    for options, words in (
        ({"clients": 0}, "data.clients = 0 must be at least 1"),
        ({"clients": 4}, "data.clients = 4 but .*train.h5 holds 3: set data.clients"),
        ({"words": 7}, "word_count holds 6 words where data.words = 7 asks for more"),
        ({"tags": 6}, "tag_count holds 5 tags where data.tags = 6 asks for more"),
    ):
        refuses(words, stackoverflow, str(place), **SMALL | options)


def test_refuses_what_is_not_there(place, tmp_path, refuses, monkeypatch):
    root = str(write(tmp_path / "few", {"1": [("a", "a", "perl")]}))
    words = "no example is left: set data.untagged = 'keep'"
    refuses(words, stackoverflow, root, **SMALL | {"clients": 1, "untagged": "drop"})
    monkeypatch.setattr(devices, "free", lambda device: 200)
    _room.check("few things", (10, 10), 1, "have fewer")
    words = "7 things would take 1.01e-07 GB, more than half of the 2e-07 GB"
    refuses(words, _room.check, "7 things", (101,), 1, "have fewer")
    words = "6 examples of 6 words would take 1.44e-07 GB, more .*: lower data.clients"
    refuses(words, stackoverflow, str(place), **SMALL)
    monkeypatch.setitem(sys.modules, "h5py", None)  # as if it were not installed
    words = r"needs h5py.*: pip install 'troth\[hdf5\]'"
    refuses(words, stackoverflow, str(place))


def replaced(name, values=None):
    """Delete part of the first client's examples, or put other values there."""

    def change(file):
        del file[f"examples/00001{name}"]
        if values is not None:
            file[f"examples/00001{name}"] = values

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda file: file.move("examples", "samples"),
            "TFF's complete file .*examples",
        ),
        (replaced("/title"), "is not TFF's complete file .*title"),
        (replaced("/title", [b"a"] * 2), "is not TFF's complete file"),
        (replaced("/tags", np.arange(3)), "is not TFF's complete file"),
        (replaced("/tags", [[b"a"], [b"b"], [b"c"]]), "is not TFF's complete file"),
        (replaced("", 3), "is not TFF's complete file"),
    ],
    ids=["no examples", "no column", "lengths", "numbers", "a table", "no group"],
)
def test_refuses_other_hdf5(place, refuses, change, words):
    with h5py.File(place / "stackoverflow_train.h5", "a") as file:
        change(file)
    said = refuses(words, stackoverflow, str(place), **SMALL)
    assert said.startswith(str(place / "stackoverflow_train.h5"))
    assert "get it again from https://www.tensorflow.org/fed" in said


def test_refuses_hdf5_cut_short(place, refuses):
    path = place / "stackoverflow_train.h5"
    content = path.read_bytes()
    for share in (0.0, 0.01, 0.5, 0.95):
        path.write_bytes(content[: int(share * len(content))])
        words = "stackoverflow_train.h5 is not TFF's complete file"
        refuses(words, stackoverflow, str(place), **SMALL)


def test_refuses_other_vocabularies(place, refuses):
    for file, content, words in (
        ("word_count", "", "holds 0 words where data.words = 6"),
        ("word_count", "the 5\na\nsql 3\n", r"holds \d words where data.words = 6"),
        ("word_count", "the 5\n" * 9, "holds 1 words where data.words = 6"),
        ("tag_count", "", "is not a complete JSON table"),
        ("tag_count", json.dumps(TAGS)[:-2], "is not a complete JSON table"),
        ("tag_count", "[" * 10**5, "is not a complete JSON table"),
        ("tag_count", '{"css": "5"}', "is not a complete JSON table"),
        ("tag_count", "{}", "holds 0 tags where data.tags = 5 asks for more"),
    ):
        write(place)
        (place / f"stackoverflow.{file}").write_text(content)
        said = refuses(words, stackoverflow, str(place), **SMALL)
        assert said.startswith(str(place / f"stackoverflow.{file}"))
        assert len(said) < 400 + len(str(place))
