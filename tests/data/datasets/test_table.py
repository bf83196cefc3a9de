"""Tables in any format are the table of a CSV file with the same values."""

import io
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from troth import lookup
from troth.data import sources
from troth.data.datasets.csv import csv
from troth.data.datasets.npz import npz
from troth.data.datasets.table import table

FRAME = pd.DataFrame(
    {
        "age": [63, 67, 41, 56],
        "sex": ["m", "f", "m", "f"],
        "chol": [233.5, None, 204, 0.1],
        "fit": [True, False, True, False],
        "site": ["Ulm", "Bern", "Ulm", "007"],
        "race": [1, 0, 0, 1],
        "part": ["train", "train", "test", "valid"],
        "sick": ["no", "yes", "yes", "no"],
    }
)
ROLES = {"label": "sick", "owner": "site", "group": "race", "split": "part"}


def in_memory(frame, **options):
    given = sources.give(frame)
    return given.member(**lookup.check("data", given.name, options))


def same(one, other):
    return sources.digest_of(one) == sources.digest_of(other)


@pytest.fixture
def as_csv(tmp_path):
    FRAME.to_csv(tmp_path / "whole.csv", index=False)
    return csv(path=str(tmp_path / "whole.csv"), **ROLES)


def test_a_frame_in_memory_and_a_csv_file(tmp_path, as_csv):
    assert as_csv.owners == ("007", "Bern", "Ulm") and np.isnan(as_csv.x[1, 3])
    assert same(in_memory(FRAME, **ROLES), as_csv)
    mixed = FRAME.set_index("age", drop=False)[::-1][::-1]  # an index is ignored
    assert same(in_memory(mixed, **ROLES), as_csv)
    exact = FRAME.convert_dtypes().astype({"sex": "category", "chol": "Float32"})
    assert same(in_memory(exact, **ROLES), as_csv)
    assert same(table(path=str(tmp_path / "whole.csv"), **ROLES), as_csv)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_files_of_arrow(tmp_path, as_csv, ending):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"mine.{ending}"
    getattr(FRAME, f"to_{ending}")(path)
    assert same(table(path=str(path), **ROLES), as_csv)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(lookup.Refusal, match="cannot be read .*write it again"):
        table(path=str(path), **ROLES)


def test_arrow_is_asked_for(tmp_path, refuses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "mine.parquet"
    path.write_bytes(b"PAR1")
    refuses("needs pyarrow to be read: pip", table, path=str(path), label="y")


def test_a_folder_has_one_file_per_owner(tmp_path, refuses, as_csv):
    (tmp_path / "whole.csv").unlink()
    rows = FRAME.drop(columns="site")
    for site in ("007", "Bern", "Ulm"):
        rows[FRAME["site"] == site].to_csv(tmp_path / f"{site}.csv", index=False)
    (tmp_path / "notes.txt").write_text("ignored")
    found = table(path=str(tmp_path), **ROLES | {"owner": ""})
    order = [3, 1, 0, 2]  # by file
    assert found.owners == as_csv.owners and found.names == as_csv.names
    assert np.array_equal(found.x, as_csv.x[order], equal_nan=True)
    assert found.owner.tolist() == as_csv.owner[order].tolist()
    by_race = table(path=str(tmp_path), **ROLES | {"owner": "race", "group": ""})
    assert by_race.owner.tolist() == [1, 0, 1, 0]
    rows.drop(columns="age").to_csv(tmp_path / "Wien.csv", index=False)
    words = r"Wien.csv has other columns \(age\).* must have the same columns"
    refuses(words, table, path=str(tmp_path), **ROLES | {"owner": ""})


def test_a_categorical_label_has_all_its_classes():
    label = pd.Categorical(["b", "a", "b", "a"], categories=["c", "b", "a"])
    found = in_memory(pd.DataFrame({"a": [1, 2, 3, 4], "y": label}), label="y")
    assert found.labels == ("c", "b", "a") and found.y.tolist() == [1, 2, 1, 2]
    found = in_memory(FRAME, **ROLES | {"classes": ["yes", "no", "maybe"]})
    assert found.classes == 3 and found.y.tolist() == [1, 0, 0, 1]


def test_inputs_in_the_cells_of_a_column(tmp_path, refuses):
    pixels = np.arange(4 * 48, dtype=np.uint8).reshape(4, 4, 4, 3)
    np.savez(tmp_path / "mine.npz", x=pixels, y=np.array([0, 1, 1, 0]))
    wanted = npz(path=str(tmp_path / "mine.npz"))

    def encoded(image):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        return {"bytes": file.getvalue(), "path": None}

    for cells in (
        [*pixels],
        [encoded(p) for p in pixels],
        [Image.fromarray(p) for p in pixels],
    ):
        frame = pd.DataFrame({"id": range(4), "y": [0, 1, 1, 0]})
        frame["picture"] = cells
        found = in_memory(frame, label="y", x="picture")
        assert same(found._replace(labels=()), wanted)
    nested = pd.DataFrame({"y": [0, 1], "v": [[1.5, 2], [3, 4]]})
    assert in_memory(nested, label="y", x="v").x.tolist() == [[1.5, 2], [3, 4]]
    for x, words in (
        ("z", "data.x = 'z' is no column"),
        ("y", "data.x = 'y' has another role"),
        ("t", "column 't' holds no array and no image in row 0"),
        ("w", r"column 'w' holds inputs of several shapes \(\[1\], \[2\]\)"),
    ):
        more = nested.assign(t=["u", "v"], w=[[1], [1, 2]])
        refuses(words, in_memory, more, label="y", x=x)
    refuses("which are neither numbers nor texts", in_memory, nested, label="y")
    refuses("data.scale = 2.0 has no effect", in_memory, FRAME, **ROLES, scale=2.0)


def test_a_changed_frame_has_another_name(refuses):
    name = sources.give(FRAME).name
    assert sources.give(FRAME.copy()).name == name
    for other in (
        FRAME.assign(age=[63, 67, 41, 57]),
        FRAME.assign(sex=["m", "f", "m", "m"]),
        FRAME.assign(chol=[233.5, None, 204, 0.2]),
        FRAME.rename(columns={"age": "years"}),
        FRAME[[*FRAME.columns[::-1]]],
        FRAME.assign(sex=FRAME["sex"].astype("category")),
    ):
        assert sources.give(other).name != name
    frame = FRAME.copy()
    given = sources.give(frame)
    frame.loc[0, "age"] = 1
    refuses("have changed since they were given", given.member, label="sick")


def test_refuses(tmp_path, refuses):
    refuses("the data has no rows", in_memory, FRAME[:0], **ROLES)
    refuses(
        "column 'chol' .data.label. has no value in 1 of 4 rows .in row 1.",
        in_memory,
        FRAME,
        **ROLES | {"label": "chol"},
    )
    odd = FRAME.assign(age=[1, 2, np.inf, 4])
    refuses(
        "column 'age' is infinite, or too large .* in row 2", in_memory, odd, **ROLES
    )
    words = "column 'sex' holds texts and, in row 2, '7'"
    refuses(words, in_memory, FRAME.assign(sex=["m", "f", 7, "f"]), **ROLES)
    refuses("no column 'sik', which data.label names", in_memory, FRAME, label="sik")
    for name, words in (("none.csv", "there is no file"), ("", "there is no table in")):
        refuses(words, table, path=str(tmp_path / name), label="y")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    refuses("ends in '.xlsx': give", table, path=str(tmp_path / "a.xlsx"), label="y")
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    refuses("first line holds values", table, path=str(tmp_path / "a.csv"), label="y")


def test_hugging_face(tmp_path, as_csv, refuses):
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_pandas(FRAME)
    assert same(in_memory(whole, **ROLES), as_csv)
    whole.save_to_disk(tmp_path / "saved")
    assert same(table(path=str(tmp_path / "saved"), **ROLES), as_csv)
    kinds = datasets.ClassLabel(names=["yes", "no", "maybe"])
    coded = whole.map(lambda row: {"sick": ["yes", "no"].index(row["sick"])})
    found = in_memory(coded.cast_column("sick", kinds), **ROLES)
    assert found.labels == ("yes", "no", "maybe") and found.y.tolist() == [1, 0, 0, 1]

    rows = whole.remove_columns("part")
    parts = {"train": rows.select([0, 1]), "validation": rows.select([3])}
    parts = datasets.DatasetDict({**parts, "test": rows.select([2])})
    found = in_memory(parts, **ROLES | {"split": ""})
    assert found.split.tolist() == [0, 0, 1, 2] and found.names == as_csv.names
    parts.save_to_disk(tmp_path / "parts")
    assert same(table(path=str(tmp_path / "parts"), **ROLES | {"split": ""}), found)
    refuses("has the part 'dev'", sources.give, datasets.DatasetDict(dev=rows))
    refuses("read as a stream", sources.give, rows.to_iterable_dataset())

    pixels = np.arange(2 * 48, dtype=np.uint8).reshape(2, 4, 4, 3)
    images = [Image.fromarray(p) for p in pixels]
    features = datasets.Features(x=datasets.Image(), y=datasets.Value("int64"))
    made = datasets.Dataset.from_dict({"x": images, "y": [0, 1]}, features=features)
    found = in_memory(made, label="y", x="x")
    assert np.array_equal(found.x, pixels.transpose(0, 3, 1, 2)) and found.scale == 255
