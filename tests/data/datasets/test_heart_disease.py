import numpy as np
import pytest

from troth.data.datasets.heart_disease import HOSPITALS, SOURCE, heart_disease

pytestmark = pytest.mark.usefixtures("offline")
FILES = [f"processed.{name}.data" for name in HOSPITALS]
# The first patient of Switzerland, of Hungary, and one made of unknowns.
SWISS = "32,1,1,95,0,?,0,127,0,.7,1,?,?,1"
UNKNOWN = ",".join(["?"] * 13 + ["0"])


def write(folder, **rows):
    """Four files of the right lengths; `rows` come first in a hospital's file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, patients in HOSPITALS.items():
        first = rows.get(name, [])
        rest = [
            f"{20 + i % 60}.0,1.0,4.0,120.0,200.0,0.0,2.0,100.0,1.0,-1.5,2.0,3.0,7.0,"
            f"{i % 5}"
            for i in range(patients - len(first))
        ]
        lines = "\n".join([*first, *rest])
        (folder / f"processed.{name}.data").write_text(lines + "\n")
    return folder


@pytest.fixture
def place(tmp_path):
    return write(tmp_path / "heart_disease", switzerland=[SWISS], va=[UNKNOWN])


def test_reads_four_hospitals(place):
    assert SOURCE.licence == "CC BY 4.0" and len(SOURCE.remotes) == 4
    arrays = heart_disease(str(place.parent))
    assert arrays.x.shape == (920, 22) and arrays.x.dtype == np.float32
    assert arrays.y.dtype == np.int64 == arrays.owner.dtype
    assert arrays.classes == 2 and arrays.scale == 1
    assert np.bincount(arrays.owner).tolist() == [303, 294, 123, 200]
    assert arrays.split is None and arrays.group is None
    assert arrays.y[:6].tolist() == [0, 1, 1, 1, 1, 0]
    arrays = heart_disease(str(place), label="severity")
    assert arrays.classes == 5 and arrays.y[:6].tolist() == [0, 1, 2, 3, 4, 0]
    assert np.array_equal(arrays.y > 0, heart_disease(str(place)).y == 1)


def test_a_row_by_hand(place):
    x = heart_disease(str(place)).x[303 + 294]  # the first of Switzerland
    nan = np.nan
    by_hand = [
        *(32, 1),  # age, sex
        *(1, 0, 0, 0),  # cp 1 of 1 … 4
        *(95, nan),  # trestbps; chol 0 is none
        nan,  # fbs
        *(1, 0, 0),  # restecg 0 of 0 … 2
        *(127, 0, 0.7),  # thalach, exang, oldpeak
        *(1, 0, 0),  # slope 1 of 1 … 3
        nan,  # ca
        *(0, 0, 0),  # thal unknown of 3, 6, 7
    ]
    np.testing.assert_array_equal(x, np.array(by_hand, np.float32))
    arrays = heart_disease(str(place), encode=False, zeros_missing=False)
    assert arrays.x.shape == (920, 13)
    by_hand = [32, 1, 1, 95, 0, np.nan, 0, 127, 0, 0.7, 1, np.nan, np.nan]
    np.testing.assert_array_equal(arrays.x[597], np.array(by_hand, np.float32))
    assert np.isnan(arrays.x[720]).all()  # the first of Long Beach
    x = heart_disease(str(place)).x[720]
    codes = [2, 3, 4, 5, 9, 10, 11, 15, 16, 17, 19, 20, 21]
    assert np.flatnonzero(x == 0).tolist() == codes
    assert np.isnan(np.delete(x, codes)).all()


def test_refuses_files_that_are_cut_renamed_or_others(place, refuses):
    for file in FILES:
        content = (place / file).read_bytes()
        for share in (0.0, 0.5, 0.999):
            (place / file).write_bytes(content[: int(share * len(content))])
            words = rf"{file} is not the publisher's table of .*get it again from"
            refuses(words, heart_disease, str(place))
        (place / file).write_bytes(content)
    path = place / FILES[3]
    for content, words in (
        ((place / FILES[1]).read_bytes(), "not the publisher's table of 200 patients"),
        (b"\x1f\x8b\x08\xff", "processed.va.data is not a text file"),
        (b"<html>404</html>", "processed.va.data is not the publisher's table"),
    ):
        path.write_bytes(content)
        refuses(words, heart_disease, str(place))


def test_refuses_other_values(tmp_path, refuses):
    row = "63,1,1,145,233,1,2,150,0,2.3,3,0,6,0"
    for old, new, words in (
        (",0,6,0", ",0,6", "of 294 patients and 14 values each"),
        (",", " ", "14 values each"),
        (",0,6,0", ",0,6,5", "num holds another value"),
        ("63,1,1", "63,1,5", "cp holds another value"),
        (",0,6,0", ",0,4,0", "thal holds another value"),
        ("233", "inf", "chol holds another value"),
        ("145", "", "could not convert"),
    ):
        changed = row.replace(old, new)
        said = refuses(words, heart_disease, str(write(tmp_path, hungarian=[changed])))
        assert said.startswith(str(tmp_path / "processed.hungarian.data")), new


@pytest.mark.data
def test_real_files(real):
    """Counts of `heart-disease.names`; unknowns as they stand in the four files."""
    arrays = heart_disease(real, encode=False, zeros_missing=False)
    missing = [np.isnan(arrays.x[arrays.owner == k]).sum(0).tolist() for k in range(4)]
    assert missing == [
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 2],
        [0, 0, 0, 1, 23, 8, 1, 1, 1, 0, 190, 291, 266],
        [0, 0, 0, 2, 0, 75, 1, 1, 1, 6, 17, 118, 52],
        [0, 0, 0, 56, 7, 7, 0, 53, 53, 56, 102, 198, 166],
    ]
    sick = [np.bincount(arrays.y[arrays.owner == k]).tolist() for k in range(4)]
    assert sick == [[164, 139], [188, 106], [8, 115], [51, 149]]
