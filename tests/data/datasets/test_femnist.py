import json

import numpy as np
import pytest

from troth.data.datasets.femnist import femnist
from troth.types import TEST, TRAIN, Refusal

pytestmark = pytest.mark.usefixtures("offline")


def picture(number):
    """Bytes that tell the number of the example."""
    x = np.arange(784) % 256
    x[0], x[1] = divmod(number, 256)
    return x


def leaf(writers, start=0):
    """As LEAF's data_to_json.py writes it: pixels / 255, labels 0 … 61."""
    data, at = {}, start
    for name, size in writers.items():
        numbers = range(at, at + size)
        x = [(picture(i) / 255).tolist() for i in numbers]
        data[name], at = {"x": x, "y": [i % 62 for i in numbers]}, at + size
    return {"users": [*writers], "num_samples": [*writers.values()], "user_data": data}


def put(root, **files):
    """`train_0=…` goes to `train/all_data_0_niid_05_keep_0_train_8.json`."""
    for name, content in files.items():
        part, number = name.split("_")
        (root / "femnist" / part).mkdir(parents=True, exist_ok=True)
        file = f"all_data_{number}_niid_05_keep_0_{part}_8.json"
        (root / "femnist" / part / file).write_text(json.dumps(content))
    return str(root)


def numbers(x):
    flat = np.rint(x.reshape(len(x), -1)[:, :2] * (1 if x.dtype == np.uint8 else 255))
    return (flat[:, 0] * 256 + flat[:, 1]).astype(int).tolist()


def test_reads_the_layout_of_leaf(tmp_path):
    arrays = femnist(
        put(
            tmp_path,
            train_0=leaf({"f0001_41": 2, "f0000_14": 3}),
            train_2=leaf({"f0003_00": 1}, start=500),
            train_10=leaf({"f0002_07": 2}, start=1000),
            test_0=leaf({"f0001_41": 1, "f0000_14": 2}, start=2000),
            test_10=leaf({"f0002_07": 1}, start=3000),
        )
    )
    assert arrays.x.shape == (12, 1, 28, 28) and arrays.x.dtype == np.uint8
    order = [0, 1, 2, 3, 4, 500, 1000, 1001, 2000, 2001, 2002, 3000]
    assert numbers(arrays.x) == order
    assert np.array_equal(arrays.x[0, 0].ravel(), picture(0))
    assert arrays.y.tolist() == [i % 62 for i in order]
    # writers are numbered by name: f0000_14, f0001_41, f0002_07, f0003_00
    assert arrays.owner.tolist() == [1, 1, 0, 0, 0, 3, 2, 2, 1, 0, 0, 2]
    assert arrays.split.tolist() == [TRAIN] * 8 + [TEST] * 4
    assert arrays.classes == 62 and arrays.scale == 255 and arrays.group is None
    types = arrays.y.dtype, arrays.owner.dtype, arrays.split.dtype
    assert types == (np.int64, np.int64, np.int8)


def test_some_writers_are_drawn_by_the_seed(tmp_path):
    names = {f"w{k}": 1 + k % 3 for k in range(20)}
    root = put(tmp_path, train_0=leaf(names), test_0=leaf(names, start=90))
    whole = femnist(root)
    few = femnist(root, 0, writers=5)
    assert len({*few.owner.tolist()}) == 5 and few.owner.max() == 4
    for k in range(5):  # all examples of a drawn writer are there
        held = numbers(few.x[few.owner == k])
        same = [w for w in range(20) if numbers(whole.x[whole.owner == w]) == held]
        assert len(same) == 1
    again, other = femnist(root, 0, writers=5), femnist(root, 1, writers=5)
    assert numbers(again.x) == numbers(few.x) != numbers(other.x)
    assert numbers(femnist(root, 0, writers=20).x) == numbers(whole.x)
    for wrong in (21, -1):
        with pytest.raises(Refusal, match=f"data.writers = {wrong} must be 1 to 20"):
            femnist(root, writers=wrong)


def test_other_writers_may_be_tested_and_every_byte_is_kept(tmp_path):
    arrays = femnist(put(tmp_path, train_0=leaf({"b": 2})))
    assert arrays.split is None and len(arrays.y) == 2
    root = put(tmp_path, train_0=leaf({"b": 2}), test_0=leaf({"a": 1}, start=9))
    arrays = femnist(root)
    assert arrays.owner.tolist() == [1, 1, 0]
    assert arrays.split.tolist() == [TRAIN, TRAIN, TEST]
    made = leaf({"a": 1})
    made["user_data"]["a"]["x"][0][:256] = (np.arange(256) / 255).tolist()
    published = np.array(made["user_data"]["a"]["x"], np.float32).ravel()
    arrays = femnist(put(tmp_path / "all", train_0=made))
    x = arrays.x
    stands = x.ravel().astype(np.float32) / np.float32(arrays.scale)
    assert np.allclose(stands, published, rtol=1e-6, atol=0)
    assert x.dtype == np.uint8 and x.ravel()[:256].tolist() == list(range(256))


def test_other_numbers_make_all_float32(tmp_path):
    for value in (0.5, -1 / 255, 256 / 255, 1e-9):
        made = leaf({"a": 1, "b": 1})
        made["user_data"]["b"]["x"][0][7] = value
        arrays = femnist(put(tmp_path, train_0=made))
        assert arrays.x.dtype == np.float32 and arrays.scale == 1
        assert arrays.x[1].ravel()[7] == np.float32(value)
        whole = (picture(0) / 255).astype(np.float32)
        assert np.array_equal(arrays.x[0].ravel(), whole)


def wrong(key, at, value):
    """A file with one value of its writer changed."""
    made = leaf({"a": 3})
    made["user_data"]["a"][key][at] = value
    return made


AGAIN = "make train and test anew with LEAF's preprocess.sh"
TWICE = "all_data_1_.* the writer 'a', whom another file in .*train holds too"


def test_refuses_files_that_do_not_agree(tmp_path, refuses):
    cases = [
        ({"train_0": leaf({"a": 1}), "train_1": leaf({"a": 1})}, TWICE),
        ({"train_0": leaf({"a": 0})}, "train holds no examples"),
        ({"train_0": leaf({"a": 1}), "test_0": [1]}, "test/all_data_0_.* is not what"),
        ({"train_0": wrong("y", 1, 62)}, "the label 62 for the writer 'a' where lab"),
        ({"train_0": wrong("x", 2, [0.0] * 100)}, "is not what LEAF writes"),
    ]
    for number, (files, words) in enumerate(cases):
        root = put(tmp_path / str(number), **files)
        assert AGAIN in refuses(words, femnist, root), words
