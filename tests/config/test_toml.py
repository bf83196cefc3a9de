import datetime
import math
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.config import toml
from troth.types import Refusal

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALAR = (
    TEXT
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.datetimes()
    | st.datetimes(timezones=st.just(datetime.UTC))
    | st.dates()
    | st.times()
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXT, inner, max_size=3)
        | st.lists(st.dictionaries(TEXT, inner, max_size=2), max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(TEXT, VALUE, max_size=5))
def test_what_is_written_is_read_back(tree):
    back = tomllib.loads(toml.dumps(tree))
    assert back == tree and _types(back) == _types(tree)


def _types(value):
    if isinstance(value, dict):
        return {k: _types(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_types(v) for v in value]
    return type(value)


def test_layout_by_hand():
    tree = {
        "seed": 0,
        "train": {"lr": 0.1, "optimizer": {"name": "sgd"}, "drop_last": False},
        "filter": [{"name": "clip", "norm": 1.0}, {"name": "nnm"}],
        "grid": {"personalizer.lam": [0.1, 1.0]},
        "empty": {},
        "none": None,
        "list": [],
    }
    assert toml.dumps(tree) == (
        "seed = 0\nlist = []\n\n[train]\nlr = 0.1\ndrop_last = false\n\n"
        '[train.optimizer]\nname = "sgd"\n\n[[filter]]\nname = "clip"\nnorm = 1.0\n\n'
        '[[filter]]\nname = "nnm"\n\n[grid]\n"personalizer.lam" = [0.1, 1.0]\n\n'
        "[empty]\n"
    )


def test_special_values():
    tree = {
        "numpy": np.float64(0.5),
        "text": 'quotes " and \\ and\nnew\tlines \x00\x7f and ünïcödé 🦉',
        "tuple": (1, 2),
        "mixed": [1, {"a": [{"b": None, "c": 2}]}],
        "none_inside": {"x": None},
    }
    back = tomllib.loads(toml.dumps(tree | {"nan": math.nan}))
    assert math.isnan(back.pop("nan"))
    other = {"tuple": [1, 2], "mixed": [1, {"a": [{"c": 2}]}], "none_inside": {}}
    assert back == tree | other
    assert toml.dumps({}) == "" and tomllib.loads(toml.dumps({"a": None})) == {}


def test_what_toml_cannot_hold_is_refused():
    for tree, sentence in (
        ({"a": object}, "<class 'object'> cannot be written as TOML: it holds texts,"),
        ({"a": [None]}, "None cannot be written as TOML: it holds texts, numbers,"),
        ({"a": {1: 2}}, "the key 1 cannot be written as TOML: a key is a text"),
        ({"a": "\udcff"}, r"the text '\\udcff' cannot be written: it is not valid Uni"),
    ):
        with pytest.raises(Refusal, match=sentence):
            toml.dumps(tree)


def test_syntax_errors_say_where():
    for text, place in (
        ("seed = 0\nlr 0.1", ", line 2, column 4"),
        ("[a]\n[a]", ", line 2, column 3"),
        ("a = ", ", line 1, column 5"),
        ("a = 1\nb = [1,", ", line 2, column 8"),
        ("a = " + "[" * 99_999, ""),
        ("a = " + "1" * 9_999, ""),
    ):
        with pytest.raises(Refusal) as refusal:
            toml.parse(text, "x.toml")
        assert str(refusal.value).startswith(f"x.toml{place} is not valid TOML: ")
        assert "; correct it there (a text needs" in str(refusal.value)


def test_read(tmp_path):
    path = tmp_path / "one.toml"
    path.write_bytes(b"\xef\xbb\xbfseed = 1\r\n")  # as a Windows editor saves it
    assert toml.read(path) == toml.read(str(path)) == {"seed": 1}
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    (tmp_path / "bad.toml").write_text("seed = ")
    cases = {
        "latim.toml": "there is no file .*latim.toml' .did you mean 'latin.toml'",
        "bad.toml/x": "there is no file",
        ".": "is a folder; give the path of an experiment in TOML",
        "latin.toml": "is not text in UTF-8 .byte 8 is no part of it",
        "bad.toml": "bad.toml, line 1, column 8 is not valid TOML",
        "nul\0": "cannot be read .embedded null byte.; give the path",
        "x" * 999: "cannot be read .File name too long.; give the path",
    }
    for name, sentence in cases.items():
        with pytest.raises(Refusal, match=sentence):
            toml.read(tmp_path / name)
