import copy
import json
import math
import os

import numpy as np
import pytest

from troth.data.datasets.vehicle import SOURCE, vehicle  # noqa: F401
from troth.types import TEST, TRAIN

pytestmark = pytest.mark.usefixtures("offline")


def leaf(sizes, width=100, start=0):
    """LEAF's layout; the first feature of an example tells its number."""
    data, at = {}, start
    for name, size in sizes.items():
        x = [[float(at + i)] + [0.5] * (width - 1) for i in range(size)]
        y = [[1 if (at + i) % 3 else -1] for i in range(size)]  # as the authors have it
        data[name], at = {"x": x, "y": y}, at + size
    return {"users": [*sizes], "num_samples": [*sizes.values()], "user_data": data}


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        said = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(said)
    return str(folder)


def test_reads_the_authors_layout(tmp_path):
    made = leaf({"f_00001": 3, "f_00000": 2})
    made["user_data"] = dict(sorted(made["user_data"].items()))  # an order of its own
    put(tmp_path / "vehicle", mytrain=made)
    arrays = vehicle(str(tmp_path))
    assert arrays.x.shape == (5, 100) and arrays.x.dtype == np.float32
    assert arrays.x[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert arrays.owner.tolist() == [0, 0, 0, 1, 1]  # the order of 'users'
    assert arrays.y.tolist() == [0, 1, 1, 0, 1]
    assert arrays.y.dtype == np.int64 == arrays.owner.dtype
    assert arrays.classes == 2 and arrays.scale == 1
    assert arrays.split is None and arrays.group is None
    train, test = leaf({"a": 2, "b": 3}), leaf({"b": 1, "a": 2}, start=50)
    arrays = vehicle(put(tmp_path / "two", mytrain=train, mytest=test))
    assert arrays.x[:, 0].tolist() == [0, 1, 2, 3, 4, 50, 51, 52]
    assert arrays.owner.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    assert arrays.split.tolist() == [TRAIN] * 5 + [TEST] * 3
    assert arrays.split.dtype == np.int8


def test_labels_may_be_plain_or_in_lists_or_fractions(tmp_path):
    made = leaf({"a": 3})
    for y in ([-1, 1, 1], [[-1], [1], [1]], [-1.0, 1.0, 1.0]):
        made["user_data"]["a"]["y"] = y
        assert vehicle(put(tmp_path, mytrain=made)).y.tolist() == [0, 1, 1]
    made = leaf({"a": 2, "none": 0, "b": 1})  # LEAF leaves users who were split away
    made["user_data"]["gone"] = {"x": [], "y": []}
    assert vehicle(put(tmp_path, mytrain=made)).owner.tolist() == [0, 0, 1]


GOOD = leaf({"a": 2, "b": 3})


def changed(*where, to):
    """The good content with one place of it changed."""
    made = inner = copy.deepcopy(GOOD)
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = to
    return made


A, ROW = GOOD["user_data"]["a"], GOOD["user_data"]["b"]["x"][0]
B = ("user_data", "b")


def test_refuses_what_is_not_whole(tmp_path, refuses):
    whole = json.dumps(GOOD)
    cases = [
        (content, "is not a whole json file")
        for content in ("", "<html>", "[" * 10**5, "1" * 10**5, whole[:-1], whole[:999])
    ]
    cases += [
        (changed(*where, to=value), "is not what LEAF writes")
        for *where, value in (
            ("users", ["a", "a"]),
            ("num_samples", [2, None]),
            ("user_data", "b", {"x": []}),
            (*B, "x", [ROW]),
            *((*B, "x", x) for x in ([ROW, ROW, ROW[1:]], [ROW[1:]] * 3, [[ROW]] * 3)),
            *(
                (*B, "x", 1, 7, value)
                for value in (math.nan, -math.inf, 1e300, 10**400, "0.5", None)
            ),
            *(
                (*B, "y", y)
                for y in ([1, 1, 0.5], [1, 1, 1e30], [[1, 1]] * 3, ["1"] * 3)
            ),
        )
    ]
    cases += [
        ("[1, 2]", "is not what LEAF writes"),
        ('{"users": ["a"]}', "is not what LEAF writes .KeyError: 'num_samples'"),
        (changed("users", to=[]) | {"num_samples": []}, "'a' has data and is not in"),
        (changed(*B, "y", to=[1, 0, 2]), "holds the labels -1, 0, 1, 2 where they are"),
        ({"users": [], "num_samples": [], "user_data": {}}, "holds the labels none"),
    ]
    for content, words in cases:
        said = refuses(words, vehicle, put(tmp_path, mytrain=content))
        assert said.startswith(str(tmp_path / "mytrain.json"))
        assert (
            "delete it and get it again from https://github.com/litian96/ditto" in said
        )
        assert len(said) < 400 + len(str(tmp_path))


def test_refuses_what_is_no_file_of_these(tmp_path, refuses):
    root, other = put(tmp_path, mytrain=GOOD), tmp_path / "mytest.json"
    put(tmp_path, mytest=leaf({"a": 1, "c": 1}))
    refuses("mytest.json has the sensor 'c', which .*mytrain", vehicle, root)
    other.unlink()
    for kind in ("loop", "pipe"):
        other.symlink_to(other) if kind == "loop" else os.mkfifo(other)
        refuses("mytest.json is not a whole json file", vehicle, root)
        other.unlink()
    made = leaf({"é" * 10**5: 2}) | {"num_samples": [3]}  # names of users are cut
    assert len(refuses("promised", vehicle, put(tmp_path, mytrain=made))) < 400


@pytest.mark.data
def test_real_file(real):
    arrays = vehicle(real)
    sizes = np.bincount(arrays.owner)
    assert sizes.tolist()[:5] == [59, 8, 20, 156, 17] and len(sizes) == 23
    assert (sizes.min(), sizes.max(), sizes.sum()) == (7, 534, 1860)
    assert np.bincount(arrays.y).tolist() == [837, 1023]
    assert arrays.x.sum(dtype=float) == pytest.approx(234.26925695139403, rel=1e-12)
