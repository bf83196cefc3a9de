import io

import numpy as np
import pytest
from PIL import Image

from troth.data.datasets.celeba import SOURCE, celeba
from troth.types import TEST, TRAIN, VALID

pytestmark = pytest.mark.usefixtures("offline")

NAMED = ("Bald", "Blond_Hair", "Male", "Smiling", "Young")
ATTRIBUTES = [*(f"Attribute_{i}" for i in range(35)), *NAMED]
PERSONS = [12, 7, 7, 30, 12, 12, 2, 30]
PARTS = [0, 0, 0, 1, 0, 0, 2, 1]
NAMES = [f"{i + 1:06d}.jpg" for i in range(len(PERSONS))]
A, P, S = "list_attr_celeba.txt", "identity_CelebA.txt", "list_eval_partition.txt"
LISTS = (A, P, S)


def has(i, j):
    """Whether picture i has attribute j, in the made set."""
    return (i * 7 + j * 3) // 4 % 2


def jpeg(i, size=(178, 218)):
    """One color a picture, so that no resampling and hardly any coding changes it."""
    file = io.BytesIO()
    Image.new("RGB", size, (20 * i, 10 * i, 255 - 20 * i)).save(file, "JPEG")
    return file.getvalue()


def write(root):
    """Eight pictures of 178×218 in the publisher's layout."""
    place = root / "celeba"
    (place / "img_align_celeba").mkdir(parents=True)
    for i, name in enumerate(NAMES):
        (place / "img_align_celeba" / name).write_bytes(jpeg(i))
    rows = [
        f"{name} " + " ".join(f"{2 * has(i, j) - 1:2d}" for j in range(40))
        for i, name in enumerate(NAMES)
    ]
    head = [str(len(NAMES)), " ".join(ATTRIBUTES) + " "]
    (place / A).write_text("\n".join(head + rows) + "\n")
    for file, values in ((P, PERSONS), (S, PARTS)):
        lines = [f"{n} {v}\n" for n, v in zip(NAMES, values, strict=True)]
        (place / file).write_text("".join(lines))
    return place


@pytest.fixture
def place(tmp_path):
    return write(tmp_path)


def test_reads_the_publishers_layout(place):
    assert SOURCE.remotes == () and "research only" in SOURCE.how
    arrays = celeba(str(place.parent))
    assert arrays.x.shape == (8, 3, 64, 64) and arrays.x.dtype == np.uint8
    colors = np.array([[20 * i, 10 * i, 255 - 20 * i] for i in range(8)])
    assert np.abs(arrays.x.mean((2, 3)) - colors).max() < 3  # what JPEG may change
    smiling = ATTRIBUTES.index("Smiling")
    assert arrays.y.tolist() == [has(i, smiling) for i in range(8)]
    assert {0, 1} == {*arrays.y.tolist()}
    assert arrays.classes == 2 and arrays.scale == 255
    assert arrays.owner.tolist() == PERSONS and arrays.group is None
    assert arrays.split.tolist() == [TRAIN] * 3 + [VALID, TRAIN, TRAIN, TEST, VALID]
    types = arrays.y.dtype, arrays.owner.dtype, arrays.split.dtype
    assert types == (np.int64, np.int64, np.int8)


def test_any_attribute_is_a_label_or_a_group(place):
    for j, name in enumerate(ATTRIBUTES):
        other = ATTRIBUTES[39 - j]
        arrays = celeba(str(place), label=name, group=other, side=8)
        assert arrays.y.tolist() == [has(i, j) for i in range(8)], name
        assert arrays.group.tolist() == [has(i, 39 - j) for i in range(8)], name
        assert arrays.group.dtype == np.int64
    names = ["Young", "Male", "Bald"]
    arrays = celeba(str(place), label=names, side=8)
    assert arrays.y.shape == (8, 3) and arrays.y.dtype == np.int64
    assert arrays.classes == 3
    for column, name in zip(arrays.y.T, names, strict=True):
        assert column.tolist() == [has(i, ATTRIBUTES.index(name)) for i in range(8)]
    assert celeba(str(place), label=["Male"], side=8).y.shape == (8, 1)


def test_a_shortcut_makes_the_group(place):
    """By hand: it is there, and the label is the rarer one of those that are read."""
    few = [i for i, person in enumerate(PERSONS) if person in (2, 7)]
    for label in ATTRIBUTES[:20]:
        for rows, options in ((range(8), {}), (few, {"identities": 2})):
            for shortcut in ("Young", "Smiling"):
                given = {"label": label, "shortcut": shortcut, "side": 8}
                arrays = celeba(str(place), **given, **options)
                i, j = ATTRIBUTES.index(label), ATTRIBUTES.index(shortcut)
                with_it = [has(k, i) for k in rows if has(k, j)]
                rarer = int(sum(with_it) <= len(with_it) / 2)
                expected = [int(has(k, j) == 1 and has(k, i) == rarer) for k in rows]
                assert arrays.group.tolist() == expected, (label, shortcut)
                assert arrays.group.dtype == np.int64
                assert arrays.y.tolist() == [has(k, i) for k in rows]


def test_takes_the_first_persons_only_and_reads_no_others(place):
    for i, person in enumerate(PERSONS):
        if person in (2, 30):  # 2 has too few, 30 is not among the first two
            (place / "img_align_celeba" / NAMES[i]).unlink()
    arrays = celeba(str(place), identities=2, at_least=2, side=8)
    assert arrays.owner.tolist() == [12, 7, 7, 12, 12]
    whole = write(place / "whole")
    assert celeba(str(whole), at_least=3, side=8).owner.tolist() == [12, 12, 12]
    assert celeba(str(whole), identities=4, side=8).owner.tolist() == PERSONS
    one = celeba(str(whole), identities=1, side=8, label=["Male", "Bald"], group="Male")
    assert one.owner.tolist() == [2] and one.split.tolist() == [TEST]
    assert one.y[0, 0] == has(6, ATTRIBUTES.index("Male")) == one.group


def test_pictures_keep_their_pixels_and_their_place(place):
    """What Pillow decodes, where nothing is resampled; and squeezed where it is."""
    rng = np.random.default_rng(0)
    for name in NAMES:
        pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(place / "img_align_celeba" / name, quality=95)
    arrays = celeba(str(place), side=32)
    for x, name in zip(arrays.x, NAMES, strict=True):
        with Image.open(place / "img_align_celeba" / name) as opened:
            same = np.asarray(opened)
        assert np.array_equal(x.transpose(1, 2, 0), same)
    half = celeba(str(place), side=16).x  # each pixel a mean of near ones
    assert half.std() < 0.8 * arrays.x.std()
    place = write(place / "whole")  # top stays top, and left stays left
    pixels = np.zeros((218, 178, 3), np.uint8)
    pixels[:109, :, 0], pixels[:, :89, 1] = 255, 255
    Image.fromarray(pixels).save(place / "img_align_celeba" / NAMES[0], quality=95)
    x = celeba(str(place), side=16).x[0].astype(int)
    assert x[0, :7].min() > 200 and x[0, 9:].max() < 50
    assert x[1, :, :7].min() > 200 and x[1, :, 9:].max() < 50 and x[2].max() < 50
    file = place / "img_align_celeba" / NAMES[0]
    Image.new("L", (178, 218), 90).save(file, "JPEG")  # grey ones become color
    assert np.abs(celeba(str(place), side=8).x[0].astype(int) - 90).max() < 3


BLOND = {"shortcut": "Blond_Hair"}
ALONE = "defines the group, and needs one label that is another attribute"


def test_refuses_options(place, refuses):
    for options, words in (
        ({"label": "smiling"}, r"data.label = 'smiling' .* .did you mean 'Smiling'"),
        ({"label": []}, r"data.label = \[\] must name attributes"),
        ({"label": ["Male", "Male"]}, "each of them once"),
        ({"shortcut": "Blonde"}, "data.shortcut = 'Blonde' is not an attribute"),
        (BLOND | {"group": "Young"}, ALONE),
        (BLOND | {"label": ["Male", "Young"]}, ALONE),
        ({"side": 100_000}, "data.side = 100000 must be 8 to 512 pixels"),
        ({"identities": -1}, "data.identities = -1 must be at least 0"),
        ({"at_least": 0}, "data.at_least = 0 at least 1"),
        ({"at_least": 4}, r"leaves 0 of 4 persons where .* asks for 1 .the most .* 3"),
        ({"identities": 5}, "leaves 4 of 4 persons where data.identities asks for 5"),
    ):
        refuses(words, celeba, str(place), **options)


OTHER = "is not the publisher's list"


def test_refuses_lists_that_are_not_right(place, refuses):
    for file, old, new, words in (
        (A, " Young", "", f"{A} {OTHER}"),
        (A, "000003.jpg", "000033.jpg", f"{P} {OTHER} .its pictures are not those of"),
        (A, "000003.jpg  1", "000003.jpg", f"{A} {OTHER} .not 40 attributes of 1 and"),
        (A, "000004.jpg", "../../x.jpg", "names of pictures are digits and .jpg"),
        (A, "000004.jpg", "000003.jpg", "a picture is named twice"),
        (P, "000004.jpg 30", "000004.jpg x", "a picture and a whole number in each"),
        (P, "000004.jpg 30", "000004.jpg -3", "numbers are 0 to 1000000000"),
        (S, "000004.jpg 1", "000004.jpg 3", f"{S} {OTHER} .numbers are 0 to 2"),
    ):
        whole = (place / file).read_text()
        assert old in whole
        (place / file).write_text(whole.replace(old, new, 1))
        line = refuses(words, celeba, str(place))
        assert "get it again from https://mmlab" in line and len(line) < 500
        (place / file).write_text(whole)
    for file in LISTS:
        content = (place / file).read_bytes()
        for share in (0.0, 0.3, 0.9):
            (place / file).write_bytes(content[: int(share * len(content))])
            refuses(OTHER, celeba, str(place))
        (place / file).write_bytes(content)


BOMB = bytearray(jpeg(0))
FRAME = BOMB.index(b"\xff\xc0") + 5  # height and width in the frame's header
BOMB[FRAME : FRAME + 4] = b"\xff\xdc\xff\xdc"


@pytest.mark.parametrize(
    ("i", "content", "words"),
    [
        (4, None, "there is no picture .*000005.jpg: unpack img_align_celeba.zip"),
        (4, b"\x89PNG\r\n\x1a\n", "000005.jpg is not a JPEG picture"),
        (4, jpeg(4)[:900], "000005.jpg is not a whole JPEG picture"),
        (4, jpeg(4, (178, 100)), "000005.jpg is a picture of 178×100 .* be 178×218"),
        (0, BOMB, "000001.jpg is not a JPEG picture .*bomb"),
    ],
    ids=["missing", "png", "half", "size", "bomb"],
)
def test_refuses_a_bad_picture_by_name(place, refuses, i, content, words):
    """Nothing is unpacked of one whose header promises too much."""
    path = place / "img_align_celeba" / NAMES[i]
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    refuses(words, celeba, str(place))


@pytest.mark.data
def test_real_files(real):
    """Of the persons that are there, the first twenty with five pictures each."""
    arrays = celeba(real, identities=20, at_least=5, side=84, label=["Smiling", "Male"])
    assert arrays.x.shape == (421, 3, 84, 84) and arrays.y.sum(0).tolist() == [227, 116]
    persons, counts = np.unique(arrays.owner, return_counts=True)
    assert len(persons) == 20 and counts.min() >= 5
    train, test = (arrays.owner[arrays.split == part] for part in (TRAIN, TEST))
    assert not np.intersect1d(train, test).size
