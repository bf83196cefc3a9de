from __future__ import annotations

import math
import pickle
import zipfile

import numpy as np
import pytest

from troth.data.datasets.npz import npz
from troth.types import Refusal

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture
def save(tmp_path):
    def saved(**arrays):
        path = tmp_path / "mine.npz"
        np.savez(path, **arrays)
        return str(path)

    return saved


def test_reads_all_five(save):
    path = save(
        x=X, y=Y, owner=Y + 4, group=Y > 1, split=np.array([0, 0, 1, 1, 2, 2]), z=Y
    )
    arrays = npz(path=path)
    assert arrays.x.tolist() == X.tolist() and arrays.x.dtype == np.float32
    assert arrays.y.tolist() == Y.tolist() and arrays.y.dtype == np.int64
    assert arrays.classes == 3 and arrays.scale == 1
    assert arrays.owner.tolist() == [4, 5, 6, 4, 5, 6]
    assert arrays.group.tolist() == [0, 0, 1, 0, 0, 1]
    assert arrays.split.tolist() == [0, 0, 1, 1, 2, 2]
    types = arrays.owner.dtype, arrays.group.dtype, arrays.split.dtype
    assert types == (np.int64, np.int64, np.int8)


def test_only_x_and_y_are_needed(save):
    arrays = npz(path=save(x=X, y=Y))
    assert arrays.owner is None and arrays.group is None and arrays.split is None


def test_reads_texts(save):
    words = np.array(["test", "train", "valid", "train", "train", "test"])
    owner = np.array(["Ulm", "Bern", "Ulm", "Aosta", "Bern", "Ulm"])
    arrays = npz(path=save(x=X, y=Y, owner=owner, split=words))
    assert arrays.split.tolist() == [2, 0, 1, 0, 0, 2]
    assert arrays.owner.tolist() == [2, 1, 2, 0, 1, 2]
    assert npz(path=save(x=X, y=Y, split=words.astype("S"))).split.tolist()[0] == 2


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("uint8", "uint8"),
        ("float64", "float64"),
        (">f8", "float64"),
        ("float16", "float32"),
        ("int64", "float32"),
        ("bool", "float32"),
    ],
)
def test_types_of_x(save, given, kept):
    x = npz(path=save(x=X.astype(given), y=Y)).x
    assert x.dtype == np.dtype(kept) and x.dtype.isnative
    assert np.array_equal(x, X.astype(given))


def test_float64_is_exact(save):
    third = np.full((6, 1), 1 / 3)
    arrays = npz(path=save(x=third, y=third[:, 0]))
    assert arrays.x[0, 0] == 1 / 3 == arrays.y[0]


@pytest.mark.parametrize(
    ("shape", "becomes"),
    [
        ((2, 5, 4), (2, 1, 5, 4)),
        ((2, 5, 4, 3), (2, 3, 5, 4)),
        ((2, 5, 4, 1), (2, 1, 5, 4)),
        ((2, 3, 5, 4), (2, 3, 5, 4)),
        ((2, 1, 5, 3), (2, 1, 5, 3)),
        ((2, 5, 4, 2), (2, 5, 4, 2)),
        ((2, 7), (2, 7)),
    ],
)
def test_byte_images_have_channels_first(save, shape, becomes):
    x = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
    arrays = npz(path=save(x=x, y=np.array([0, 1])))
    assert arrays.x.shape == becomes and arrays.x.flags.c_contiguous
    assert arrays.scale == 255
    if becomes == (2, 3, 5, 4) and shape != becomes:
        assert arrays.x[1, 2, 4, 3] == x[1, 4, 3, 2]


def test_other_numbers_keep_their_shape(save):
    assert npz(path=save(x=np.zeros((6, 5, 3)), y=Y)).x.shape == (6, 5, 3)


def test_scale_may_be_set(save):
    path = save(x=X.astype(np.uint8), y=Y)
    assert npz(path=path, scale=16.0).scale == 16
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(Refusal, match=f"data.scale = {bad} must be"):
            npz(path=path, scale=bad)


def test_targets(save):
    arrays = npz(path=save(x=X, y=Y.astype(np.float32)))
    assert arrays.classes == 0 and arrays.y.dtype == np.float32
    assert npz(path=save(x=X, y=Y.astype(np.float16))).y.dtype == np.float32
    assert npz(path=save(x=X, y=Y.astype(np.float64))).y.dtype == np.float64


def test_signs_and_truths_are_two_labels(save):
    sign = np.array([-1, 1, 1, -1, 1, 1], np.int8)
    for y in (sign, sign > 0):
        arrays = npz(path=save(x=X, y=y))
        assert arrays.classes == 2 and arrays.y.tolist() == [0, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_])
def test_several_labels_an_example(save, dtype):
    y = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0]] * 2)
    arrays = npz(path=save(x=X, y=y.astype(dtype)))
    assert arrays.y.tolist() == y.tolist() and arrays.y.dtype == np.int64
    assert arrays.classes == 3


@pytest.mark.parametrize("bad", [2, -1, 0.5])
def test_refuses_other_values_for_several_labels(save, bad):
    y = np.stack([Y > 0, Y > 1], axis=1) * np.array(1).astype(type(bad))
    y[4, 1] = bad
    words = r"y has shape \(6, 2\) and type .*0 and 1, a column a label, and a regre"
    with pytest.raises(Refusal, match=words):
        npz(path=save(x=X, y=y))


def test_refuses_several_labels_for_another_number_of_examples(save):
    with pytest.raises(Refusal, match=r"y has shape \(5, 2\) but x holds 6 examples"):
        npz(path=save(x=X, y=np.ones((5, 2), int)))
    with pytest.raises(Refusal, match=r"y has shape \(6, 2, 2\) but x holds 6"):
        npz(path=save(x=X, y=np.ones((6, 2, 2), int)))


@pytest.mark.parametrize(
    ("y", "some"),
    [
        ([1, 2, 3, 1, 2, 3], "1, 2, 3;"),
        ([0, 1, 3, 0, 1, 3], "0, 1, 3;"),
        ([-1, 0, 1, -1, 0, 1], "-1, 0, 1;"),
        ([0, 0, 0, 0, 0, 0], "0;"),
        ([1, 1, 1, 1, 1, 1], "1;"),
    ],
)
def test_refuses_other_labels(save, y, some):
    with pytest.raises(Refusal, match=f"y holds the labels {some}.*relabel with"):
        npz(path=save(x=X, y=np.array(y)))


def test_names_only_a_few_of_many_labels(save):
    with pytest.raises(Refusal, match="labels 5, 6, 7, 8, 9, 10, 11, 12 …;"):
        npz(path=save(x=np.zeros((50, 1)), y=np.arange(5, 55)))


def test_refuses_a_missing_file(tmp_path):
    with pytest.raises(Refusal, match=r"there is no file '.*none.npz'.*set data.path"):
        npz(path=str(tmp_path / "none.npz"))
    with pytest.raises(Refusal, match="there is no file"):
        npz(path=str(tmp_path))


def broken(tmp_path, kind):
    path = tmp_path / "mine.npz"
    np.savez(path, x=X, y=Y)
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:-30])
    elif kind == "flipped":
        content = bytearray(path.read_bytes())
        content[200] ^= 255
        path.write_bytes(content)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("x,y\n1,2\n")
    elif kind == "npy":
        with open(path, "wb") as file:
            np.save(file, X)
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"x": X}))
    return str(path)


@pytest.mark.parametrize("kind", ["cut", "flipped", "empty", "text", "npy", "pickle"])
def test_refuses_what_is_not_a_whole_npz(tmp_path, kind):
    path = broken(tmp_path, kind)
    with pytest.raises(Refusal, match="is not a whole .npz file") as caught:
        npz(path=path)
    said = str(caught.value)
    assert said.startswith(path) and "\n" not in said and "allow_pickle" not in said


def test_refuses_a_zip_of_other_things(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=X)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("y", "1 2")
    with pytest.raises(Refusal, match="whole .npz file .it is a zip of other things"):
        npz(path=str(path))


@pytest.mark.parametrize("key", ["x", "y", "owner"])
def test_refuses_objects_and_never_unpickles(save, key):
    arrays = {"x": X, "y": Y, key: np.array([{}] * 6, object)}
    with pytest.raises(Refusal, match="holds Python objects"):
        npz(path=save(**arrays))


def test_refuses_without_x_or_y(save):
    with pytest.raises(Refusal, match=r"lacks the array y \(it holds: x, label\)"):
        npz(path=save(x=X, label=Y))
    with pytest.raises(Refusal, match=r"lacks the array x \(it holds: none\)"):
        npz(path=save())


@pytest.mark.parametrize("key", ["y", "owner", "group", "split"])
def test_refuses_lengths_that_differ(save, key):
    arrays = {"x": X, "y": Y, key: Y[:5]}
    with pytest.raises(
        Refusal, match=rf"{key} has shape \(5,\) but x holds 6 examples"
    ):
        npz(path=save(**arrays))


def test_refuses_shapes(save):
    with pytest.raises(Refusal, match=r"y has shape \(6, 1\)"):
        npz(path=save(x=X, y=Y[:, None]))
    with pytest.raises(Refusal, match=r"y has shape \(\)"):
        npz(path=save(x=X, y=3))
    with pytest.raises(Refusal, match=r"x has shape \(6,\).*x.reshape"):
        npz(path=save(x=Y, y=Y))
    for empty in (X[:0], X[:, :0]):
        with pytest.raises(Refusal, match="x has shape .*at least one example"):
            npz(path=save(x=empty, y=Y[: len(empty)]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_refuses_what_is_not_finite(save, value):
    x, y = X.copy(), Y.astype(np.float32)
    x[[2, 4, 4], [1, 0, 1]] = value
    if math.isnan(value):  # a missing value, for [features] to fill in
        kept = npz(path=save(x=x, y=Y)).x
        assert np.array_equal(kept, x, equal_nan=True)
    else:
        with pytest.raises(Refusal, match=r"x is NaN or infinite in 2 of 6 .*row 2\)"):
            npz(path=save(x=x, y=y))
    y[5] = value
    with pytest.raises(Refusal, match=r"y is NaN or infinite in 1 of 6 .*row 5\)"):
        npz(path=save(x=X, y=y))


def test_refuses_types(save):
    with pytest.raises(Refusal, match="x is complex64; it must be an array of real"):
        npz(path=save(x=X.astype(np.complex64), y=Y))
    with pytest.raises(Refusal, match="y is <U1; it must be whole numbers"):
        npz(path=save(x=X, y=Y.astype("U1")))
    with pytest.raises(Refusal, match="owner is float64; give whole numbers or texts"):
        npz(path=save(x=X, y=Y, owner=Y / 2))
    with pytest.raises(Refusal, match="split holds dev, eval; it must be 0, 1, 2 or"):
        npz(path=save(x=X, y=Y, split=np.array(["dev", "eval"] * 3)))
    with pytest.raises(Refusal, match="split holds 3, 4"):
        npz(path=save(x=X, y=Y, split=np.arange(6) % 5))
    with pytest.raises(Refusal, match="split holds .*; it must be 0, 1, 2"):
        npz(path=save(x=X, y=Y, split=np.zeros(6)))
