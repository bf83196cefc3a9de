from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from troth import api, cli
from troth.datasets.csv import csv as dataset
from troth.loading import Run

HEAD = ["age", "sex", "ward", "smokes", "note", "hospital", "ill"]


def troth(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def rows(gaps: bool) -> list[list[str]]:
    draw = np.random.default_rng(0)
    made = []
    for i in range(80):
        age = "NA" if gaps and i % 9 == 4 else f"{draw.normal(50, 9):.3f}"
        sex = "" if gaps and i % 7 == 3 else "fm"[i % 2]
        ward, smokes = str(draw.integers(1, 4)), ["true", "False"][draw.integers(2)]
        ill = "well" if age == "NA" or float(age) < 50 else "ill, badly"
        made.append([age, sex, ward, smokes, "x", f"h{i % 4}", ill])
    return made


def save(path: Path, head: list[str], body: list[list[str]], mark: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=mark).writerows([head, *body])
    return path


def trained(place: Path, features: str) -> Path:
    data: dict[str, Any] = {
        "path": str(save(place / "t.csv", HEAD, rows(features != "none"), ";")),
        "label": "ill",
        "owner": "hospital",
        "drop": ["note"],
        "categorical": ["ward"],
        "delimiter": ";",
    }
    experiment = {
        "data": {"name": "csv", **data},
        "partition": "natural",
        "features": features,
        "personalizer": "local",
        "train": {"rounds": 4, "steps": 5},
        "engine": {"how": "vmap", "chunk": 4, "device": "cpu"},
    }
    api.run(experiment, out=place / "out")
    return place / "out"


@pytest.fixture(scope="module", params=["own", "federated"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Path:
    """A run on a table with gaps."""
    return trained(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Path:
    """A run that fills nothing in."""
    return trained(tmp_path_factory.mktemp("none"), "none")


def test_a_table_in_another_order_without_the_label(
    filled: Path, tmp_path: Path
) -> None:
    run = Run(filled)
    names = ["age", "sex=f", "sex=m", "ward=1", "ward=2", "ward=3", "smokes"]
    assert run.experiment.resolved["features"] == names
    x = dataset(**run.experiment.data.options).x
    order = [3, 1, 0, 2]
    body = [[row[j] for j in order] + ["?"] for row in rows(True)]
    file = save(tmp_path / "new.CSV", [HEAD[j] for j in order] + [""], body, ";")
    ask = ("predict", filled, "--client", 1, "--data", file)
    result = troth(*ask, "--json")
    assert result.exit_code == 0, result.output
    expected = run.predict(1, x)
    assert np.isnan(x).any() and {*expected.tolist()} == {0, 1}
    found = json.loads(result.stdout)
    words = [("ill, badly", "well")[k] for k in expected]
    assert found == {
        "client": 1,
        "predictions": expected.tolist(),
        "accuracy": None,
        "names": words,
    }
    assert troth(*ask).stdout.splitlines() == words
    out = tmp_path / "p.csv"
    assert troth(*ask, "--out", out).exit_code == 0
    with out.open(encoding="utf-8") as lines:
        table = list(csv.DictReader(lines))
    assert [row["name"] for row in table] == words
    assert [int(row["prediction"]) for row in table] == expected.tolist()


def test_a_category_that_was_not_trained_on_is_none(
    filled: Path, tmp_path: Path
) -> None:
    head, run = ["age", "sex", "ward", "smokes"], Run(filled)
    body = [["70", "q", "9", "1"], ["30", "f", "3", "true"], ["", "", "", "NA"]]
    file = save(tmp_path / "new.csv", head, body, ";")
    found = troth("predict", filled, "--client", 0, "--data", file, "--json")
    nan = np.nan
    x = [[70, 0, 0, 0, 0, 0, 1], [30, 1, 0, 0, 0, 1, 1], [nan, 0, 0, 0, 0, 0, nan]]
    expected = run.predict(0, np.array(x, np.float32)).tolist()
    assert json.loads(found.stdout)["predictions"] == expected


@pytest.mark.parametrize(
    ("head", "row", "words"),
    [
        ("age;sex;smokes", "1;f;true", "has no column 'ward', which this run was"),
        ("Age;sex;ward;smokes", "1;f;1;true", "no column 'age'.*did you mean 'Age'"),
        ("1;f;1;true", "1;f;1;true", "no column 'age'.*first line must name"),
        ("age;sex;ward;smokes", "old;f;1;1", "column 'age' holds 'old' in line 2, and"),
        ("age;sex;ward;smokes", "1e99;f;1;1", "holds '1e99' in line 2.* finite number"),
        ("age;sex;ward;smokes", "1_0;f;1;1", "column 'age' holds '1_0' in line 2"),
        ("age;sex;ward;smokes", "NA;f;1;1", "column 'age' has no value in line 2, and"),
        ("age;sex;ward;smokes", "1;f;1", "line 2 holds 3 values and there are 4"),
        ("age;sex;ward;smokes", "", "holds names and no rows"),
        ("age;sex;ward;smokes;age", "1;f;1;1;2", "several columns that may be.*'age'"),
        ("age;sex;ward;smokes;sex=f", "1;f;1;1;0", "several columns.*'sex=f'.*: sex, "),
    ],
)
def test_refused_tables(
    plain: Path, tmp_path: Path, head: str, row: str, words: str
) -> None:
    file = tmp_path / "new.csv"
    file.write_text(f"{head}\n{row}\n")
    result = troth("predict", plain, "--client", 0, "--data", file)
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert re.search(words, line), line


def test_no_file_and_no_names(plain: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.csv"
    result = troth("predict", plain, "--client", 0, "--data", nowhere)
    assert result.exit_code == 2 and "there is no file" in result.stderr
    tiny = {"train": {"rounds": 1}, "partition": {"name": "iid", "clients": 2}}
    api.run(tiny, out=tmp_path / "digits")
    file = save(tmp_path / "a.csv", ["a"], [["1"]])
    result = troth("predict", tmp_path / "digits", "--client", 0, "--data", file)
    assert result.exit_code == 2 and "has no names of features" in result.stderr


def test_arrays_still_do_and_are_scored(plain: Path, tmp_path: Path) -> None:
    arrays = dataset(**Run(plain).experiment.data.options)
    np.savez(tmp_path / "xy.npz", x=arrays.x, y=arrays.y)
    data, out = tmp_path / "xy.npz", tmp_path / "p.csv"
    result = troth("predict", plain, "--client", 0, "--data", data, "--out", out)
    assert result.exit_code == 0 and "accuracy" in result.stderr
