"""Data in memory: every form becomes the arrays that an .npz file would hold."""

import gc

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from torch.utils.data import Dataset, TensorDataset

from troth import lookup
from troth.data import sources
from troth.data.datasets.npz import npz
from troth.types import Arrays

X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.arange(12) % 3
OWNER = np.arange(12) // 4


class Pairs(Dataset):
    """Items (x, y), where y is a Python number."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i].item()


def parts(made):
    return [made(x, y) for x, y in zip(np.split(X, 3), np.split(Y, 3), strict=True)]


def tensors(x, y):
    return TensorDataset(torch.tensor(x), torch.tensor(y))


PLAIN = {"x": X, "y": Y, "owner": OWNER}
FORMS = {
    "arrays": PLAIN,
    "lists": {"x": X, "y": Y.tolist(), "owner": OWNER.tolist()},
    "tensors": {k: torch.tensor(v) for k, v in PLAIN.items()},
    "pandas": {"x": pd.DataFrame(X), "y": pd.Series(Y), "owner": pd.Series(OWNER)},
    "one per client": parts(tensors),
    "tuples": tuple(parts(Pairs)),
    "one with owners": {"dataset": Pairs(X, Y), "owner": OWNER},
    "one of tensors": {"dataset": tensors(X, Y), "owner": OWNER},
    "by name": dict(zip("abc", parts(Pairs), strict=True)),
    "whole": Arrays(X, Y, 3, owner=OWNER),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_data_of_an_npz_file(tmp_path, form):
    np.savez(tmp_path / "mine.npz", **PLAIN)
    wanted = npz(path=str(tmp_path / "mine.npz"))
    given = sources.give(FORMS[form])
    found = lookup.find("data", given.name)()
    assert sources.digest_of(found._replace(owners=())) == sources.digest_of(wanted)
    assert found.x.dtype == wanted.x.dtype and found.owner.dtype == wanted.owner.dtype


def test_options_texts_and_parts():
    x = torch.ones(4, 5, 5, 3, dtype=torch.uint8)
    owner = pd.Series(["Ulm", "Bern", "Ulm", "Bern"])
    split = ["train", "test"] * 2
    given = sources.give({"x": x, "y": [0, 1, 0, 1], "owner": owner, "split": split})
    assert lookup.check("data", given.name, {}) == {"scale": 0.0, "classes": 0}
    found = given.member(scale=2.0)
    assert found.x.shape == (4, 3, 5, 5) and found.scale == 2
    assert found.owner.tolist() == [1, 0, 1, 0] and found.split.tolist() == [0, 2] * 2
    half = sources.give({"x": torch.ones(4, 2, dtype=torch.bfloat16), "y": [0, 1] * 2})
    assert half.member().x.dtype == np.float32
    single = sources.give(Pairs(X, Y)).member()
    assert single.owner is None and np.array_equal(single.x, X)


def test_a_name_says_which_data_and_lasts_as_long_as_they_do(refuses):
    given = sources.give(PLAIN)
    again = sources.give({k: v.copy() for k, v in PLAIN.items()})
    assert given.name == again.name
    assert sources.give(PLAIN | {"y": 2 - Y}).name != given.name
    assert sources.give(PLAIN | {"x": X.astype("f8")}).name != given.name
    name = given.name
    lookup.hints(given.member), lookup.asks(given.member)  # must not keep it alive
    lookup.call(given.member, {}, seed=0)
    del given, again
    gc.collect()
    assert lookup.lost(name) and lookup.check("data", name, {"scale": 1.0})
    words = "data 'memory:arrays@.*' was given in memory.*troth.load.path, data="
    refuses(words, lookup.find("data", name), scale=1.0)


def test_data_that_change_in_place_are_refused(refuses):
    for form in ("arrays", "whole"):
        x = X.copy()
        data = {"x": x, "y": Y} if form == "arrays" else Arrays(x, Y, 3)
        given = sources.give(data)
        given.member()
        x[0, 0] = 5
        refuses("have changed since they were given", given.member)


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])


class Triples(Pairs):
    def __getitem__(self, i):
        return self.x[i], 0, 1


class Ragged(Pairs):
    def __getitem__(self, i):
        return self.x[i, : 1 + i % 2], 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "data= is of type int; it must be a dictionary of arrays"),
        ([], "data= is of type list"),
        ([1, 2], "data= is of type list"),
        ({"x": X}, "data= lacks y"),
        ({"x": X, "y": Y, "owners": Y}, r"'owners' \(did you mean 'owner'\?\)"),
        ({"dataset": Pairs(X, Y), "y": Y}, "both y and dataset"),
        ({"dataset": X, "owner": Y}, "a dataset of type ndarray"),
        ({"x": X, "y": [object()] * 12}, r"y of type list .*y\)\.astype\(str\)"),
        ({"x": X.astype(object), "y": Y}, r"object.*x\)\.astype\('float32'\)"),
        ({"x": csr_array(X), "y": Y}, r"x of type csr_array .* x\.toarray\(\)"),
        ({"x": [[1.0, 2.0], [1.0]], "y": [0, 1]}, "x with rows of different lengths"),
        ({"x": np.ma.masked_less(X, X.mean()), "y": Y}, "masked values in x"),
        (Endless(), "the Endless without a length"),
        (Triples(X, Y), r"item 0 .* is not a pair \(x, y\), but a tuple"),
        (TensorDataset(torch.tensor(X)), r"item 0 .* is not a pair"),
        (Pairs(X[:0], Y[:0]), "a Pairs without items"),
        (Ragged(X, Y), r"x of several shapes \(\[1\], \[2\]\)"),
    ],
)
def test_refuses(refuses, data, words):
    refuses(words, sources.give, data)


def test_whole_numbers_as_floats_are_classes_in_tables_and_a_regression_in_arrays():
    """As docs/how-to/own-data.md says under "What the labels decide"."""
    y = Y.astype(float)
    assert sources.give({"x": X, "y": y}).member().classes == 0
    assert sources.give(parts(lambda x, y: Pairs(x, y.astype(float)))).member()[2] == 0
    assert sources.give({"x": X, "y": y.astype(int)}).member().classes == 3
    frame = pd.DataFrame({"a": X[:, 0], "y": y})
    assert sources.give(frame).member(label="y").classes == 3
    assert sources.give(frame).member(label="y", kind="targets").classes == 0


@pytest.mark.parametrize("column", ["a", "b", "y"])
def test_complex_numbers_are_refused(refuses, column):
    """As features, as Python objects, and as the label; the imaginary part was lost."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    frame[column] = frame[column] + 1j
    if column == "b":
        frame["b"] = frame["b"].astype(object)
    member = sources.give(frame).member
    refuses(f"column '{column}' holds complex numbers; replace it", member, label="y")
    if column != "y":
        assert member(label="y", drop=[column]).x.shape == (12, 1)


INPUTS, LABELS, WHO = np.arange(12.0).reshape(6, 2), np.arange(6) % 2, ["b", "a"] * 3


@pytest.mark.parametrize(
    "made",
    [
        {"x": INPUTS, "y": LABELS, "owner": WHO},
        Arrays(INPUTS, LABELS, 2, owner=np.array(WHO)),
        Arrays(INPUTS, LABELS, 2, owner=WHO),  # type: ignore[arg-type]
    ],
)
def test_a_users_function_returns_any_of_these(made):
    found = sources.returned("mine:f", made)
    assert found.owner is not None and found.owner.tolist() == [1, 0] * 3
    assert found.owners == ("a", "b") and found.classes == 2


def test_a_pair_from_a_users_function(refuses):
    found = sources.returned("mine:f", (INPUTS, LABELS))
    assert found.x.tolist() == INPUTS.tolist() and found.y.tolist() == LABELS.tolist()
    assert sources.returned("mine:f", given := Arrays(INPUTS, LABELS, 2)) is given
    for wrong in (INPUTS, (INPUTS, LABELS, LABELS), {"x": INPUTS}, None):
        words = "data 'mine:f' returns a .* that cannot be used; return"
        refuses(words, lambda wrong=wrong: sources.returned("mine:f", wrong))
