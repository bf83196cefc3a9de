import csv
import json
import re

import numpy as np
import pytest

from troth import api, files
from troth.data.datasets.csv import csv as dataset
from troth.runs.load import Run

HEAD = ["age", "sex", "ward", "smokes", "note", "hospital", "ill"]


def rows(gaps):
    draw = np.random.default_rng(0)
    made = []
    for i in range(80):
        age = "NA" if gaps and i % 9 == 4 else f"{draw.normal(50, 9):.3f}"
        sex = "" if gaps and i % 7 == 3 else "fm"[i % 2]
        ward, smokes = str(draw.integers(1, 4)), ["true", "False"][draw.integers(2)]
        ill = "well" if age == "NA" or float(age) < 50 else "ill, badly"
        made.append([age, sex, ward, smokes, "x", f"h{i % 4}", ill])
    return made


def save(path, head, body, mark=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=mark).writerows([head, *body])
    return path


def trained(place, features):
    data = {
        "name": "csv",
        "path": str(save(place / "t.csv", HEAD, rows(features != "none"), ";")),
        **{"label": "ill", "owner": "hospital", "drop": ["note"]},
        **{"categorical": ["ward"], "delimiter": ";"},
    }
    experiment = {
        "data": data,
        "partition": "natural",
        "features": features,
        "personalizer": "local",
        "train": {"rounds": 4, "steps": 5},
        "engine": {"how": "vmap", "chunk": 4, "device": "cpu"},
    }
    api.run(experiment, out=place / "out")
    return place / "out"


@pytest.fixture(scope="module", params=["own", "federated"])
def filled(request, tmp_path_factory):
    """A run on a table with gaps."""
    return trained(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run that fills nothing in."""
    return trained(tmp_path_factory.mktemp("none"), "none")


def test_a_table_in_another_order_without_the_label(troth, filled, tmp_path):
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
    words = [("ill, badly", "well")[k] for k in expected]
    told = {"client": 1, "predictions": expected.tolist(), "accuracy": None}
    assert json.loads(result.stdout) == {**told, "names": words}
    assert troth(*ask).stdout.splitlines() == words
    out = tmp_path / "p.csv"
    assert troth(*ask, "--out", out).exit_code == 0
    with out.open(encoding="utf-8") as lines:
        table = list(csv.DictReader(lines))
    assert [row["name"] for row in table] == words
    assert [int(row["prediction"]) for row in table] == expected.tolist()


def test_a_category_that_was_not_trained_on_is_none(troth, filled, tmp_path):
    head, run = ["age", "sex", "ward", "smokes"], Run(filled)
    body = [["70", "q", "9", "1"], ["30", "f", "3", "true"], ["", "", "", "NA"]]
    file = save(tmp_path / "new.csv", head, body, ";")
    found = troth("predict", filled, "--client", 0, "--data", file, "--json")
    gap = [np.nan, 0, 0, 0, 0, 0, np.nan]
    x = [[70, 0, 0, 0, 0, 0, 1], [30, 1, 0, 0, 0, 1, 1], gap]
    expected = run.predict(0, np.array(x, np.float32)).tolist()
    assert json.loads(found.stdout)["predictions"] == expected


def test_refused_tables(refused, plain, one, tmp_path):
    file, head = tmp_path / "new.csv", "age;sex;ward;smokes"
    for first, row, words in (
        ("age;sex;smokes", "1;f;true", "has no column 'ward', which this run was"),
        ("Age;sex;ward;smokes", "1;f;1;true", "no column 'age'.*did you mean 'Age'"),
        ("1;f;1;true", "1;f;1;true", "no column 'age'.*first line must name"),
        (head, "old;f;1;1", "column 'age' holds 'old' in line 2, and"),
        (head, "1e99;f;1;1", "holds '1e99' in line 2.* finite number"),
        (head, "1_0;f;1;1", "column 'age' holds '1_0' in line 2"),
        (head, "NA;f;1;1", "column 'age' has no value in .*in line 2.*does not fill"),
        (head, "1;f;1", "line 2 holds 3 values and there are 4"),
        (head, "", "holds names and no rows"),
        (f"{head};age", "1;f;1;1;2", "several columns that may be.*'age'"),
        (f"{head};sex=f", "1;f;1;1;0", "several columns.*'sex=f'.*: sex, "),
    ):
        file.write_text(f"{first}\n{row}\n")
        line = refused("predict", plain, "--client", 0, "--data", file)
        assert re.search(words, line), line
    ask = ("--client", 0, "--data")
    said = refused("predict", plain, *ask, tmp_path / "nowhere.csv")
    assert "there is no file" in said
    assert "has no feature names" in refused("predict", one[0], *ask, file)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Some digits in the shapes that a user may have them in."""
    from sklearn.datasets import load_digits

    place, found = tmp_path_factory.mktemp("digits"), load_digits()
    x = found.images[:9].astype(np.uint8)
    np.savez(place / "xy.npz", x=x, y=found.target[:9])
    np.savez(place / "channels.npz", x=x[:, None].astype(np.float32))
    np.savez(place / "float.npz", x=x.astype(np.float32))
    np.savez(place / "short.npz", x=x, y=found.target[:8])
    np.savez(place / "none.npz", y=found.target[:8])
    np.save(place / "x.npy", x)
    (place / "text.npz").write_text("no")
    return place, found.target[:9]


def test_predict(troth, refused, one, digits, tmp_path):
    (out, _), (place, y) = one, digits
    ask = ("predict", out, "--client", 2, "--data")
    result = troth(*ask, place / "xy.npz")
    assert result.exit_code == 0, result.output
    labels = [int(line) for line in result.stdout.splitlines()]
    x = np.load(place / "xy.npz")["x"][:, None]
    assert labels == Run(out).predict(2, x).tolist()
    accuracy = np.mean(labels == y)
    assert result.stderr == f"accuracy {accuracy:.3f} on 9 examples\n"
    for name, known in (("xy.npz", accuracy), ("x.npy", None), ("channels.npz", None)):
        expected = {"client": 2, "predictions": labels, "accuracy": known}
        assert json.loads(troth(*ask, place / name, "--json").stdout) == expected
    given = (*ask, place / "x.npy", "--out", tmp_path / "p.csv")
    assert troth(*given).stdout == ""
    assert files.read_csv(tmp_path / "p.csv")["prediction"].tolist() == labels
    assert "exists already" in refused(*given)


def test_predict_refuses(refused, one, grid, digits):
    for run, name, client, words in (
        (one[0], "float.npz", 0, r"\[8, 8\] .* \[1, 8, 8\]"),
        (one[0], "short.npz", 0, r"y has shape \(8,\) .* 9 examples"),
        (one[0], "none.npz", 0, "has no array x.*np.savez"),
        (one[0], "text.npz", 0, r"npz cannot be read \(it holds no plain arrays\)"),
        (one[0], "missing.npz", 0, "missing.npz cannot be read"),
        (one[0], "x.npy", 6, "there is no client 6.*0 to 5"),
        (one[0], "x.npy", -1, "there is no client -1"),
        (grid[0], "x.npy", 0, "personalizer=local,seed=1"),
    ):
        ask = (run, "--client", client, "--data", digits[0] / name)
        assert re.search(words, refused("predict", *ask))


def test_predict_a_regression(troth, tiny, written, tmp_path):
    text = tiny.replace('"digits"', '"linear_regression"').replace('"iid"', '"natural"')
    file = written(tmp_path / "r.toml", text.replace("clients = 6", ""))
    result = troth("run", file, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    assert "Error of the clients' own models" in result.stderr
    assert "error_mean" in json.loads(result.stdout)["runs"][0]["summary"]["personal"]
    d = json.loads(result.stdout)["runs"][0]["experiment"]["resolved"]["shape"][0]
    np.savez(tmp_path / "x.npz", x=np.eye(d), y=np.zeros(d))
    ask = ("--client", 0, "--data", tmp_path / "x.npz", "--json")
    found = json.loads(troth("predict", tmp_path / "out", *ask).stdout)
    assert found["error"] == pytest.approx(np.mean(np.square(found["predictions"])))
