import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import lookup
from troth.data.datasets.csv import csv
from troth.types import Refusal

HEART = """\
age,sex,pain,chol,fit,site,race,part,sick
63,m,typical,233.5,True,Ulm,b,train,no
67,f,none at all,?,False,Bern,a,train,yes
41,m,typical,204,True,Ulm,a,test,yes
56,f,,1e2,,007,b,valid,no
"""
ROLES = {"label": "sick", "owner": "site", "group": "race", "split": "part"}


@pytest.fixture
def save(tmp_path):
    def saved(text, name="mine.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return saved


def refused(path, words, **options):
    with pytest.raises(Refusal, match=words) as caught:
        csv(path=path, **{"label": "y", **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_worked_example(save):
    arrays, nan = csv(path=save(HEART), **ROLES), math.nan
    assert arrays.owners == ("007", "Bern", "Ulm")
    first = ("age", "sex=f", "sex=m", "pain=none at all", "pain=typical")
    assert arrays.names == (*first, "chol", "fit")
    expected = [
        [63, 0, 1, 0, 1, 233.5, 1],
        [67, 1, 0, 1, 0, nan, 0],
        [41, 0, 1, 0, 1, 204, 1],
        [56, 1, 0, 0, 0, 100, nan],
    ]
    assert np.array_equal(arrays.x, expected, equal_nan=True)
    assert arrays.x.dtype == np.float32 and arrays.scale == 1
    assert arrays.labels == ("no", "yes") and arrays.classes == 2
    for name, values, kind in (
        ("y", [0, 1, 1, 0], np.int64),
        ("owner", [2, 1, 2, 0], np.int64),  # 007, Bern, Ulm
        ("group", [1, 0, 0, 1], np.int64),
        ("split", [0, 0, 2, 1], np.int8),
    ):
        found = getattr(arrays, name)
        assert found.tolist() == values and found.dtype == kind


def test_a_label_alone_and_a_column_that_is_two_things(save):
    arrays = csv(path=save("a,y\n1,2\n3,4\n"), label="y")
    assert arrays.y.tolist() == [0, 1]
    assert arrays.owner is arrays.group is arrays.split is None
    arrays = csv(path=save("a,o,y\n1,u,0\n2,v,1\n"), label="y", owner="o", group="o")
    assert arrays.owner.tolist() == arrays.group.tolist() == [0, 1]
    values = ["0.1", "-1e-3", "+3", "1E5", ".5", "5.", "16777217", "1e-50", "007"]
    text = "a,y\n" + "".join(f"{v},{i % 2}\n" for i, v in enumerate(values))
    x = csv(path=save(text), label="y").x[:, 0]
    assert x.tolist() == np.array([float(v) for v in values], np.float32).tolist()


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("last", [True, False])
def test_files_as_they_come(save, ending, mark, packed, last):
    """Line ends, a byte-order mark, gzip whatever its name, blanks, blank lines."""
    text = mark + "\n a , y\n1,b\n\n 2 , a \n3,b" + "\n" * last
    raw = text.replace("\n", ending).encode()
    arrays = csv(path=save(gzip.compress(raw, mtime=0) if packed else raw), label="y")
    assert arrays.names == ("a",) and arrays.labels == ("a", "b")
    assert arrays.x.tolist() == [[1], [2], [3]] and arrays.y.tolist() == [1, 0, 1]


NAN = math.nan
TWO = [[1.5, 1, 0], [2, 0, 1]]
THREE = [[NAN, 1, 0, 1], [2, 0, 0, 2], [3, 0, 1, 3]]
READ = [
    ("a,y\n1,2\n3,4\n", {}, "a", [[1], [3]]),
    ("1,2\n3,4\n", {"columns": ["y", "a"]}, "a", [[2], [4]]),
    (",a,y\n0,1,2\n1,5,6\n", {"drop": [""]}, "a", [[1], [5]]),
    ("a,b,a,y\n1,2,3,4\n1,2,3,5\n", {"drop": ["a"]}, "b", [[2], [2]]),
    ("a,y\nTrue,0\nFalse,1\n?,0\n", {}, "a", [[1], [0], [NAN]]),
    ("a,y\ntrue,0\nFALSE,1\n?,0\n", {}, "a", [[1], [0], [NAN]]),
    (
        *('a,"y, or not"\n"x, ""z""",1\n "two\nlines",2\n', {"label": "y, or not"}),
        *('a=two\nlines a=x, "z"', [[0, 1], [1, 0]]),
    ),
    (
        *("zip,y\n007,0\n7,1\n10,0\n7,1\n", {"categorical": ["zip"]}),
        *("zip=007 zip=10 zip=7", [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]),
    ),
    (
        *("a,b,y\n-9,None,0\n1,x,1\n-9.0,x,0\n", {"missing": ["-9"]}),
        *("a b=None b=x", [[NAN, 1, 0], [1, 0, 1], [-9, 0, 1]]),
    ),
    *(
        (f"a{d}b{d}y\n1.5{d}x{d}0\n2{d}z{d}1\n", {"delimiter": d}, "a b=x b=z", TWO)
        for d in (";", "\t", "|", " ")
    ),
    *(
        (f"a,b,c,y\n{gap},u,1,0\n2,{gap},2,1\n3,v,3,0\n", {}, "a b=u b=v c", THREE)
        for gap in ("?", "", "NA", "NaN", "nan", "null", "None", '" ? "', '""')
    ),
]


def test_features(save):
    for text, options, names, x in READ:
        arrays = csv(path=save(text), **{"label": "y"} | options)
        assert " ".join(arrays.names) == names
        assert np.array_equal(arrays.x, np.array(x, np.float32), equal_nan=True)


def test_refuses_other_names_and_gaps(save):
    refused(save("y,a\n1,2\n"), "line 1 has the names that", columns=["y", "a"])
    words = "line 1 holds 2 values and there are 3 col"
    refused(save("1,2\n3,4\n"), words, columns=["y", "a", "b"])
    words = "holds 'nan' in line 3, which is"
    refused(save("a,y\n1,0\nnan,1\n"), words, missing=[""])
    words = "column 'a' holds numbers and, in line 3, '':"
    refused(save("a,y\n1,0\n,1\n"), words, missing=[])
    rows = ["1,u,0"] * 600 + ['2,"v\nw",1', "", "x,u,1"]
    refused(save("a,b,y\n" + "\n".join(rows)), "holds numbers and, in line 605, 'x'")


def test_a_column_of_many_gaps_or_categories(save):
    rows = ["?,?,0"] * 1500 + ["1,u,1", "?,v,0"]
    x = csv(path=save("a,b,y\n" + "\n".join(rows)), label="y").x
    assert np.isnan(x[:1500, 0]).all() and x[1500].tolist() == [1, 1, 0]
    assert not x[:1500, 1:].any() and x[1501, 1:].tolist() == [0, 1]
    path = save("a,y\n" + "".join(f"t{i},{i % 2}\n" for i in range(1001)))
    refused(path, "holds 1001 different texts, .*at most 1000.: add it to data.drop")
    refused(path, "holds 1001 different texts", categorical=["a"])
    path = save("a,y\n" + "".join(f"t{i},{i % 2}\n" for i in range(40)))
    refused(path, "holds 40 different texts in 40 rows, like a column of names")
    assert csv(path=path, label="y", categorical=["a"]).x.shape == (40, 40)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.just("?"), st.floats(-1e30, 1e30).map(repr)),
            st.sampled_from(["?", "b", " b", "a ", "ü", "x,y", '"', "c\nd"]),
            st.sampled_from(["no", "yes", "maybe"]),
            st.integers(-5, 5).map(str),
        ),
        min_size=2,
        max_size=30,
    ).filter(
        lambda rows: (
            len({row[2] for row in rows}) > 1
            and all({row[i] for row in rows} - {"?"} for i in (0, 1))
        )
    )
)
def test_what_is_written_is_read(tmp_path_factory, rows):
    """Against plain Python, row by row."""
    quoted = [['"' + v.replace('"', '""') + '"' for v in row] for row in rows]
    path = tmp_path_factory.mktemp("csv") / "mine.csv"
    path.write_bytes("\n".join(map(",".join, [["n", "t", "y", "o"], *quoted])).encode())
    arrays = csv(path=str(path), label="y", owner="o")
    texts = [row[1].strip() for row in rows]
    kinds = sorted({*texts} - {"?"})
    assert arrays.names == ("n", *(f"t={kind}" for kind in kinds))
    for i, (value, _, label, owner) in enumerate(rows):
        number = math.nan if value == "?" else float(value)
        wanted = [number, *(float(texts[i] == kind) for kind in kinds)]
        assert np.array_equal(arrays.x[i], np.array(wanted, np.float32), equal_nan=True)
        assert arrays.labels[arrays.y[i]] == label and arrays.owner[i] == int(owner)


BIG = "9007199254740992", "9007199254740993"


def test_labels_are_numbered_in_order(save):
    for values, labels, y in (
        (["b", "a", "c", "a"], ("a", "b", "c"), [1, 0, 2, 0]),
        (["10", "9", "-1", "9"], ("-1", "9", "10"), [2, 1, 0, 1]),
        (["TRUE", "False", "TRUE", "False"], ("False", "TRUE"), [1, 0, 1, 0]),
        (["01", "1", "2", "1"], ("1", "2"), [0, 0, 1, 0]),
        ([*BIG[::-1], *BIG[::-1]], BIG, [1, 0, 1, 0]),
    ):
        text = "a,y\n" + "".join(f"{i},{value}\n" for i, value in enumerate(values))
        arrays = csv(path=save(text), label="y")
        assert arrays.labels == labels and arrays.classes == len(labels)
        assert arrays.y.tolist() == y and arrays.y.dtype == np.int64


def test_targets(save):
    path = save("a,y\n1,0.5\n2,2\n3,-1e3\n")
    arrays = csv(path=path, label="y")
    assert arrays.y.tolist() == [0.5, 2, -1000] and arrays.y.dtype == np.float32
    assert arrays.classes == 0 and arrays.labels == ()
    arrays = csv(path=path, label="y", kind="labels")
    assert arrays.y.tolist() == [1, 2, 0] and arrays.labels == ("-1000", "0.5", "2")
    arrays = csv(path=save("a,y\n1,5\n2,7\n"), label="y", kind="targets")
    assert arrays.y.tolist() == [5, 7] and arrays.classes == 0
    path = save("a,y\n" + "".join(f"{i % 7},{i}\n" for i in range(101)))
    refused(path, "101 different whole numbers: set data.kind = 'labels' if each is")
    for kind, classes in (("labels", 101), ("targets", 0)):
        assert csv(path=path, label="y", kind=kind).classes == classes


def test_several_labels(save):
    path = save("a,dog,cat\n1,0,True\n2,1,false\n3,1.0,1\n")
    arrays = csv(path=path, label=["cat", "dog"])
    assert arrays.y.tolist() == [[1, 0], [0, 1], [1, 1]] and arrays.y.dtype == np.int64
    assert arrays.classes == 2 and arrays.labels == ("cat", "dog")
    assert arrays.names == ("a",)
    one = csv(path=path, label=["dog"], drop=["cat"])
    assert one.y.tolist() == [0, 1, 1] and one.labels == ("0", "1")


def test_owners_and_groups_keep_their_names(save):
    for values, owner in (
        (["10", "9", "-3"], [10, 9, -3]),
        (["10", "9", "07"], [1, 2, 0]),
        (["1.0", "1", "2"], [1, 0, 2]),
        (["1_0", "10", "1"], [2, 1, 0]),
        (["99999999999999999999", "1", "2"], [2, 0, 1]),
    ):
        text = "a,o,y\n" + "".join(f"1,{v},{i % 2}\n" for i, v in enumerate(values))
        for key in ("owner", "group"):
            arrays = csv(path=save(text), label="y", **{key: "o"})
            assert getattr(arrays, key).tolist() == owner


def test_classes_may_lack_examples(save):
    path = save("a,y\n1,b\n2,d\n3,b\n")
    found = csv(path=path, label="y", classes=["d", "c", "b"])
    assert found.labels == ("d", "c", "b") and found.y.tolist() == [2, 0, 2]
    refused(path, "column 'y': y holds 'd', which is not", classes=["a", "b"])
    refused(path, "y holds texts such as 'b'", classes=4)
    numbers = save("a,y\n1,3\n2,1\n3,3\n")
    for classes, labels in ((5, "01234"), (["u", "v", "w", "x"], "uvwx")):
        found = csv(path=numbers, label="y", classes=classes)
        assert found.labels == tuple(labels) and found.y.tolist() == [3, 1, 3]
    assert csv(path=numbers, label="y", classes=["3", "1"]).y.tolist() == [0, 1, 0]
    refused(numbers, "y holds the labels 3, and data.classes gives 3", classes=3)
    refused(numbers, "goes only with one column of lab", classes=4, kind="targets")
    refused(numbers, "data.classes = 1 must be the number", classes=1)


def test_refuses_files(save):
    for raw, words in (
        (b"", "is empty: it needs a line of names, then one line per row"),
        (b"a,y\n", "holds names and no rows"),
        (b"a,y\n1,2\n3\n", "line 3 holds 1 values and there are 2 columns"),
        (b"a,y\n1,2\n\n3,4,5\n", "line 4 holds 3 values"),
        (b'a,y\n1,2\n"x\ny,3\n', "row that begins in line 3 cannot be read .unexp"),
        (b'a,y\n"1"2,3\n', "row that begins in line 2 cannot be read"),
        (b'a,y\n1,2\n"' + b"3,4\n" * 40_000, "begins in line 3 cannot .*field larger"),
        (b"a,y\n1,u\n2,\xe9\n", r"not a text in UTF-8 \(line 3 is not\): save it as"),
        ("a,y\n1,2".encode("utf-16"), "not a text in UTF-8 .line 1 is not"),
        (gzip.compress(b"a,y\n1,2\n", mtime=0)[:-9], "cannot be read .*write it again"),
        (b"1.5,2\n3,4\n", r"first line holds values \(1.5, 2\) where the names of th"),
        (b"a,b,a,y\n1,2,3,4\n", "columns 1 and 3 are both called 'a'"),
        (b",a,y\n0,1,2\n", r'column 1 has no name .*pandas.*add "" to data.drop'),
        (b"y\n1\n2\n", "has no column left for a feature"),
    ):
        path = save(raw)
        assert refused(path, words).startswith(path)


def test_refuses_a_missing_file_and_other_types(tmp_path):
    for place in (tmp_path / "none.csv", tmp_path):
        refused(str(place), r"there is no file '.*' \(seen from .*\): set data.path to")
    for key, value in (("label", 3), ("drop", "id"), ("kind", "class")):
        with pytest.raises(Refusal, match=f"data.{key} = "):
            lookup.check("data", "csv", {"path": "x", "label": "y", key: value})


def test_refuses_options(save):
    for options, words in (
        ({"label": "sik"}, "no column 'sik', which data.label names .did you mean "),
        ({"split": "Part"}, "data.split names .did you mean 'part'"),
        ({"drop": ["agee"]}, "data.drop names .did you mean 'age'"),
        ({"drop": ["site"]}, "data.drop and data.owner both name 'site'"),
        ({"categorical": ["part"]}, "data.categorical and data.split both name 'part'"),
        *(
            ({"label": v}, "data.label = .* must name the column to p")
            for v in ("", [])
        ),
        ({"label": ["sick", "sick"]}, "several columns, each once"),
        *(
            ({"delimiter": d}, f"data.delimiter = .{d}. must be one character")
            for d in ("", "::", '"')
        ),
        ({"delimiter": ";"}, "has no column 'sick'.*.should data.delimiter be ','?"),
        ({"split": "race"}, "column 'race' holds a, b; it must be 0, 1, 2 or 'train'"),
        ({"kind": "targets"}, "is 'no' in line 2, which is no finite number: correct"),
        ({"label": ["sick", "fit"]}, "column 'fit'.*in 1 of 4 rows .in line 5"),
    ):
        refused(save(HEART), words, **{**ROLES, **options})


def test_refuses_columns(save):
    for column, words in (
        (["1", "2", "x"], "holds numbers and, in line 4, 'x': correct it, add it to"),
        (["1", "1_0", "2"], "holds numbers and, in line 3, '1_0'"),
        (["u", "v", "7"], "holds texts and, in line 4, '7'.*data.categorical .its val"),
        (["1", "inf", "2"], "holds 'inf' in line 3, which is no finite number of 32"),
        (["1e39", "2", "3"], "holds '1e39' in line 2, which is no finite number"),
        (["?", "NA", ""], "column 'a' holds no value in any row: add it to data.drop"),
        (['"1,5"', '"2,25"', '"0,1"'], "holds '1,5' in line 2, and numbers are writ"),
    ):
        text = "a,b,y\n" + "".join(f"{v},{i},{i % 2}\n" for i, v in enumerate(column))
        refused(save(text), words)


def test_refusals_are_one_short_line(save):
    names = ",".join(f"c{i}" for i in range(30))
    assert refused(save(f"{names}\n"), "no column 'y'").endswith("c19 and 10 more")
    long = "x" * 100_000
    words = f"holds numbers and, in line 3, '{'x' * 40}…': correct"
    refused(save(f"a,y\n1,0\n{long},1\n"), words)
    refused(save('a,y\n1,0\n"u\nv",1\n'), r"in line 3, 'u\\nv': correct")
    refused(save('"a\n",y\n?,0\n?,1\n'), r"column 'a' holds no value")
    refused(save('"a\nb",y\n?,0\n?,1\n'), r"column 'a\\nb' holds no value")
    refused(save('"a\nb",z\n1,0\n'), r"there are: a\\nb, z$")
    path = save("a,y\n1,None\n2,ill\n")
    message = refused(path, "has no value in 1 of 2 rows .in line 2.")
    assert message.endswith("or take a word that is a class out of data.missing")
    assert csv(path=path, label="y", missing=["", "?"]).labels == ("None", "ill")


def test_refuses_gaps_in_what_must_be_there(save):
    for key in ("label", "owner", "group", "split"):
        rows = (f"1,{'' if i % 2 else 'train'},{i % 2}\n" for i in range(30))
        words = (
            rf"column 'y' .data.{key}. has no value in 15 of 30 rows \(in "
            r"line 3, 5, 7, 9, 11, 13, 15, 17 …\): fill it in, leave these rows"
        )
        refused(save("a,y,z\n" + "".join(rows)), words, **{"label": "z"} | {key: "y"})


def test_refuses_labels(save):
    for values, options, words in (
        ("10x", {}, "is 'x' in line 4, which is no finite number, and others"),
        (["1", "1", "1.0"], {}, "is '1' in every row, so that there is nothing to lea"),
        (["no", "no", "no"], {}, "is 'no' in every row"),
        (["1e39", "0", "2"], {"kind": "targets"}, "is 1e.39 in line 2, .* 32 bits"),
        ("102", {"label": ["y", "b"]}, "'2' in line 4, and it is one of 2 in data.lab"),
        ("101", {"label": ["y", "b"], "kind": "targets"}, "so name one"),
    ):
        text = "a,b,y\n" + "".join(f"{i},{i % 2},{v}\n" for i, v in enumerate(values))
        refused(save(text), words, **options)
