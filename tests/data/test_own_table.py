"""A site's own table."""

import numpy as np

from troth.config import reader
from troth.deployment import site as sites

TREE = {
    "train": {"rounds": 2, "steps": 2, "batch": 2},
    "engine": {"device": "cpu"},
    "features": "own",
    "model": {"normalize": "none"},
    "deployment": {
        "sites": ["a", "b"],
        "shape": [3],
        "classes": 2,
        "features": ["age", "sex=f", "sex=m"],
        "label": "sick",
        "labels": ["no", "yes"],
    },
}
TABLE = "id,sick,sex,age\n" + "1,yes,m,50\n2,no,m,\n3,no,x,60\n" * 8


def agreed(**changes):
    own = {**TREE["deployment"], **changes}
    return sites.agreed(reader.from_dict({**TREE, "deployment": own}))


def saved(path, text=TABLE):
    (path / "mine.csv").write_text(text)
    return str(path / "mine.csv")


def test_columns_are_read_as_all_sites_agreed(tmp_path):
    arrays, _ = sites.own_data(agreed(), 1, saved(tmp_path))
    assert arrays.x.shape == (24, 3)
    assert arrays.x[0].tolist() == [50, 0, 1]  # f is nobody here, and has its column
    assert np.isnan(arrays.x[1, 0]) and arrays.x[2].tolist() == [60, 0, 0]
    assert arrays.y[:3].tolist() == [1, 0, 0]
    site = sites.Site(agreed(), "b", saved(tmp_path))
    assert site.size == site.data.train.size[1] > 10
    text = TABLE.replace("yes", "1").replace("no", "0")
    arrays, _ = sites.own_data(agreed(labels=[]), 0, saved(tmp_path, text))
    assert arrays.y[:3].tolist() == [1, 0, 0] and arrays.y.dtype == np.int64
    text = TABLE.replace("yes", "1.5").replace("no", "-2")
    arrays, _ = sites.own_data(agreed(labels=[], classes=0), 0, saved(tmp_path, text))
    assert arrays.y[:2].tolist() == [1.5, -2]


def test_tables_that_do_not_fit(tmp_path, refuses):
    for changes, text, why in (
        ({"features": [], "label": ""}, TABLE, "is a table, and all sites must encode"),
        ({"label": "dead"}, TABLE, "no column 'dead', which deployment.label names"),
        ({}, TABLE.replace("age", "years"), "has no column 'age'"),
        ({}, TABLE.replace("yes", "perhaps"), "'perhaps', which is no class of"),
        ({"labels": []}, TABLE, "'yes' in line 2, which is no number; set deploy"),
        ({}, TABLE.replace("yes", ""), "column 'sick' has no value in .*in line 2"),
        ({"labels": []}, TABLE.replace("yes", "2").replace("no", "0"), "y holds 2"),
    ):
        refuses(why, sites.own_data, agreed(**changes), 0, saved(tmp_path, text))


def test_what_is_agreed_on_must_fit_together(refuses):
    for changes, why in (
        ({"labels": ["no"]}, "labels names 1 classes and deployment.classes = 2"),
        ({"features": ["age"]}, r"features names 1 features and .*shape = \[3\]"),
        ({"several": True, "classes": 1, "labels": []}, "say how many labels there"),
    ):
        refuses(why, agreed, **changes)
