import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from troth.data.datasets.coil20 import SOURCE, coil20  # noqa: F401

pytestmark = pytest.mark.usefixtures("offline")
NAMES = [f"obj{k + 1}__{view}.png" for k in range(20) for view in range(72)]


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def pixels(k, view):
    """A picture that says which it is in its first two pixels."""
    x = np.add.outer(np.arange(128), np.arange(128)).astype(np.uint8)
    x[0, :2] = k, view
    return x


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    (root / "coil-20-proc").mkdir()
    for i, name in enumerate(NAMES):
        (root / "coil-20-proc" / name).write_bytes(png(pixels(*divmod(i, 72))))
    return root


@pytest.fixture
def but(made):
    """The made pictures, but one of them is something else, or missing."""
    path = made / "coil-20-proc" / "obj2__3.png"
    content = path.read_bytes()

    def but(other):
        path.unlink()
        if other is not None:
            path.write_bytes(other)
        return str(made)

    yield but
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    path.write_bytes(content)


def test_reads_the_publishers_layout_and_shrinks(made, refuses):
    arrays = coil20(str(made))
    assert arrays.x.shape == (1440, 1, 128, 128) and arrays.x.dtype == np.uint8
    assert arrays.y.dtype == np.int64 == arrays.group.dtype
    assert arrays.classes == 20 and arrays.scale == 255
    assert arrays.owner is None and arrays.split is None
    # object 3 (of 0 … 19) seen from view 70 stands at 3·72 + 70
    assert (arrays.y[286], arrays.group[286]) == (3, 70)
    assert np.array_equal(arrays.x[286, 0], pixels(3, 70))
    assert np.array_equal(arrays.x[:, 0, 0, 0], arrays.y)
    assert np.array_equal(arrays.x[:, 0, 0, 1], arrays.group)
    arrays = coil20(str(made), side=64)
    # view 7 of object 5: (5 + 7 + 1 + 2) / 4 = 3.75; next square (2 + 3 + 3 + 4) / 4
    assert arrays.x[5 * 72 + 7, 0, 0, :2].tolist() == [4, 3]
    assert arrays.x.shape == (1440, 1, 64, 64) and arrays.x.dtype == np.uint8
    assert coil20(str(made), side=1).x[0, 0, 0, 0] == round(pixels(0, 0).mean())
    for side in (0, -64, 3, 100, 256, 129):
        words = f"data.side = {side} must be 128 or a whole fraction"
        refuses(words, coil20, str(made), side=side)


GOOD = png(pixels(1, 3))
FLIPPED = bytearray(GOOD)
FLIPPED[len(GOOD) // 2] ^= 255


def jpeg():
    file = io.BytesIO()
    Image.fromarray(pixels(0, 0)).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no picture .*obj2__3.png"),
        (b"", "is not a PNG picture"),
        *((v, "is not a PNG picture") for v in (jpeg(), GOOD[:20])),
        *((v, "is not a whole PNG picture") for v in (GOOD[: len(GOOD) // 2], FLIPPED)),
        (GOOD[:-12], r"is not a whole PNG picture \(its end is missing\)"),
        (png(pixels(0, 0)[:64, :64]), "a picture of 64×64 where it must be 128×128"),
        (png(np.zeros((128, 128, 3), np.uint8)), "of kind RGB where it must be grey"),
        (png(np.zeros((128, 128), np.uint16)), "of kind I;16 where it must be grey"),
    ],
)
def test_refuses_a_bad_picture_by_name(but, refuses, content, words):
    said = refuses(words, coil20, but(content))
    assert "obj2__3.png" in said
    assert "unpack coil-20-proc.zip from https://www.cs.columbia.edu" in said


@pytest.mark.data
def test_real_files(real):
    arrays = coil20(real)
    digest = hashlib.sha256(arrays.x.tobytes()).hexdigest()
    assert digest.startswith("7274cbacb79ea6c57340827c9f9301745a8e9b3173dea4aa828e00b4")
    assert np.bincount(arrays.y).tolist() == [72] * 20
    assert coil20(real, side=32).x.mean() == pytest.approx(76.896, abs=1e-3)
