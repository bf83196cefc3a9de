import io
import math
import pickle
import zipfile

import numpy as np
import pytest

from troth.data.datasets.npz import npz

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
    split = np.array([0, 0, 1, 1, 2, 2])
    arrays = npz(path=save(x=X, y=Y, owner=Y + 4, group=Y > 1, split=split, z=Y))
    assert arrays.classes == 3 and arrays.scale == 1
    for name, values, kind in (
        ("x", X.tolist(), np.float32),
        ("y", Y.tolist(), np.int64),
        ("owner", [4, 5, 6, 4, 5, 6], np.int64),
        ("group", [0, 0, 1, 0, 0, 1], np.int64),
        ("split", split.tolist(), np.int8),
    ):
        found = getattr(arrays, name)
        assert found.tolist() == values and found.dtype == kind
    arrays = npz(path=save(x=X, y=Y))
    assert arrays.owner is None and arrays.group is None and arrays.split is None


def test_reads_texts_and_float64_exactly(save, refuses):
    words = np.array(["test", "train", "valid", "train", "train", "test"])
    owner = np.array(["Ulm", "Bern", "Ulm", "Aosta", "Bern", "Ulm"])
    arrays = npz(path=save(x=X, y=Y, owner=owner, split=words))
    assert arrays.split.tolist() == [2, 0, 1, 0, 0, 2]
    assert arrays.owner.tolist() == [2, 1, 2, 0, 1, 2]
    assert npz(path=save(x=X, y=Y, split=words.astype("S"))).split.tolist()[0] == 2
    third = np.full((6, 5, 3), 1 / 3)
    arrays = npz(path=save(x=third, y=third[:, 0, 0]))
    assert arrays.x.shape == (6, 5, 3) and arrays.x[0, 0, 0] == 1 / 3 == arrays.y[0]
    path = save(x=X.astype(np.uint8), y=Y)
    assert npz(path=path, scale=16.0).scale == 16
    for bad in (-1.0, math.nan, math.inf):
        refuses(f"data.scale = {bad} must be", npz, path=path, scale=bad)


def test_types_of_x(save):
    for given, kept in (
        *[("uint8", "uint8"), ("float64", "float64"), (">f8", "float64")],
        *[(kind, "float32") for kind in ("float16", "int64", "bool")],
    ):
        x = npz(path=save(x=X.astype(given), y=Y)).x
        assert x.dtype == np.dtype(kept) and x.dtype.isnative
        assert np.array_equal(x, X.astype(given))


def test_byte_images_have_channels_first(save):
    for shape, becomes in (
        ((2, 5, 4), (2, 1, 5, 4)),
        ((2, 5, 4, 3), (2, 3, 5, 4)),
        ((2, 5, 4, 1), (2, 1, 5, 4)),
        ((2, 3, 5, 4), (2, 3, 5, 4)),
        ((2, 1, 5, 3), (2, 1, 5, 3)),
        ((2, 5, 4, 2), (2, 5, 4, 2)),
        ((2, 7), (2, 7)),
    ):
        x = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
        arrays = npz(path=save(x=x, y=np.array([0, 1])))
        assert arrays.x.shape == becomes and arrays.x.flags.c_contiguous
        assert arrays.scale == 255
        if becomes == (2, 3, 5, 4) and shape != becomes:
            assert arrays.x[1, 2, 4, 3] == x[1, 4, 3, 2]


def test_signs_several_labels_and_targets(save):
    for given, kept in (("f2", "f4"), ("f4", "f4"), ("f8", "f8")):
        arrays = npz(path=save(x=X, y=Y.astype(given)))
        assert arrays.classes == 0 and arrays.y.dtype == kept
    sign = np.array([-1, 1, 1, -1, 1, 1], np.int8)
    for y in (sign, sign > 0):
        arrays = npz(path=save(x=X, y=y))
        assert arrays.classes == 2 and arrays.y.tolist() == [0, 1, 1, 0, 1, 1]
    x = np.where(np.isinf(LOST), np.nan, LOST)
    assert np.array_equal(npz(path=save(x=x, y=Y)).x, x, equal_nan=True)

    for dtype in (np.int8, np.uint64, np.bool_):
        y = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0]] * 2)
        arrays = npz(path=save(x=X, y=y.astype(dtype)))
        assert arrays.y.tolist() == y.tolist() and arrays.y.dtype == np.int64
        assert arrays.classes == 3


def test_classes_may_lack_examples(save, refuses):
    path = save(x=X, y=Y * 2)
    assert npz(path=path, classes=10).classes == 10
    found = npz(path=path, classes=list("abcde"))
    assert found.labels == tuple("abcde") and found.y.tolist() == [0, 2, 4] * 2
    path = save(x=X, y=np.array(["b", "d"] * 3))
    assert npz(path=path).labels == ("b", "d")
    found = npz(path=path, classes=list("abcd"))
    assert found.y.tolist() == [1, 3] * 3 and found.classes == 4
    assert npz(path=save(x=X, y=np.zeros(6, int)), classes=2).classes == 2
    sign = np.array([-1, 1] * 3)
    assert npz(path=save(x=X, y=sign), classes=2).y.tolist() == [0, 1] * 3
    several = np.array([[0, 1]] * 6)
    assert npz(path=save(x=X, y=several), classes=["u", "v"]).labels == ("u", "v")
    for y, classes, said in (
        (Y * 2, 4, "holds the labels 4, and data.classes gives 4 classes, 0 to 3"),
        (Y - 1, 3, "holds the labels -1"),
        (Y / 2, 3, "y is float64; it must be .* because data.classes = 3"),
        (Y.astype("U1"), 3, "y holds texts such as '0': set data.classes to the list"),
        (Y.astype("U1"), ["0", "1"], "y holds '2', which is not in data.classes"),
        (several, 3, "y has 2 columns, one per label, and data.classes = 3"),
        *((Y, k, "must be the number of classes") for k in (1, -2, ["a"], ["a", "a"])),
    ):
        refuses(said, npz, path=save(x=X, y=y), classes=classes)


def test_owners_keep_their_names(save):
    owner = np.array(["Ulm", "Bern", "Ulm", "Aosta", "Bern", "Ulm"])
    assert npz(path=save(x=X, y=Y, owner=owner)).owners == ("Aosta", "Bern", "Ulm")
    assert npz(path=save(x=X, y=Y, owner=Y)).owners == ()


MANY = np.zeros((50, 1))
HALVES = np.stack([Y / 2, Y / 2], axis=1)
LOST = X.copy()
LOST[[2, 4, 4], [1, 0, 1]] = np.inf


def test_refuses(save, refuses):
    for arrays, words in (
        *(
            ({"y": y}, rf"y has shape \(6, 2\) and type {kind}.*0 and 1, one column")
            for y, kind in (
                ([[0, 2]] * 6, ""),
                ([[0, -1]] * 6, ""),
                (HALVES, "float64"),
            )
        ),
        ({"y": np.ones((5, 2), int)}, r"y has shape \(5, 2\) but x holds 6 examples"),
        *(
            ({name: Y[:5]}, rf"{name} has shape \(5,\) but x holds 6 examples")
            for name in ("y", "owner", "group", "split")
        ),
        ({"x": Y}, r"x has shape \(6,\).*x.reshape"),
        ({"x": X[:0], "y": Y[:0]}, "x has shape .*at least one example"),
        ({"x": X[:, :0]}, "x has shape .*at least one example"),
        *(
            ({"y": y * 2}, f"y holds the labels {str(y)[1:-1]};.*relabel with")
            for y in ([1, 2, 3], [0, 1, 3], [-1, 0, 1])
        ),
        *(({"y": [k] * 6}, f"y holds the labels {k};.*relabel with") for k in (0, 1)),
        ({"x": MANY, "y": np.arange(5, 55)}, "labels 5, 6, 7, 8, 9, 10, 11, 12 …;"),
        *(
            ({"x": x}, r"x is NaN or infinite in 2 of 6 .*row 2\)")
            for x in (LOST, -LOST)
        ),
        ({"y": LOST[:, 1]}, r"y is NaN or infinite in 2 of 6 .*row 2\)"),
        ({"x": X.astype(np.complex64)}, "x is complex64; it must be an array of real"),
        ({"y": Y.astype("c8")}, "y is complex64; it must be whole numbers .labels., t"),
        ({"y": ["a"] * 6}, "y is 'a' in every example"),
        ({"owner": Y / 2}, "owner is float64; give whole numbers or texts"),
        ({"split": ["dev", "eval"] * 3}, "split holds dev, eval; it must be 0, 1, 2"),
        ({"split": np.arange(6) % 5}, "split holds 3, 4"),
        *(({name: [{}] * 6}, "holds Python objects") for name in ("x", "y", "owner")),
    ):
        path = save(**{"x": X, "y": Y} | {k: np.asarray(v) for k, v in arrays.items()})
        assert refuses(words, npz, path=path).startswith(path)


def held(save, values):
    """The bytes of a file that numpy writes."""
    file = io.BytesIO()
    save(file, **values) if isinstance(values, dict) else save(file, values)
    return file.getvalue()


GOOD = held(np.savez, {"x": X, "y": Y})


@pytest.mark.parametrize(
    "content",
    [
        *(GOOD[:-30], GOOD[:200] + bytes([GOOD[200] ^ 255]) + GOOD[201:], b""),
        *(b"x,y\n1,2\n", held(np.save, X), pickle.dumps({"x": X})),
    ],
    ids=["cut", "flipped", "empty", "text", "npy", "pickle"],
)
def test_refuses_what_is_not_a_whole_npz(tmp_path, refuses, content):
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    said = refuses("is not a whole .npz file", npz, path=str(path))
    assert said.startswith(str(path)) and "allow_pickle" not in said


def test_refuses_what_is_no_file_of_arrays(save, refuses, tmp_path):
    path = save(x=X)
    refuses(r"lacks the array y \(it holds: x\)", npz, path=path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("y", "1 2")
    refuses("whole .npz file .it is a zip of other things", npz, path=path)
    refuses(r"lacks the array x \(it holds: none\)", npz, path=save())
    for path in (tmp_path / "none.npz", tmp_path):
        refuses("there is no file '.*'.*set data.path", npz, path=str(path))
