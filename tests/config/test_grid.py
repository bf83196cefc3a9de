import copy
import math
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import api
from troth.config import grid, reader
from troth.types import Refusal


def test_override():
    for assignment, expected in (
        ("seed=3", {"seed": 3}),
        ("train.lr = 0.5", {"train": {"rounds": 9, "lr": 0.5}}),
        ("train.rounds=1e2", {"train": {"rounds": 100.0}}),
        ("train.a.beta=0.5", {"train": {"rounds": 9, "a": {"beta": 0.5}}}),
        ("output.personal=false", {"output": {"personal": False}}),
        ("name=a b", {"name": "a b"}),
        ('name="3"', {"name": "3"}),
        ("name=", {"name": ""}),
        ("name=a=b", {"name": "a=b"}),
        ("name=1\nseed = 2", {"name": "1\nseed = 2"}),
        ("personalizer=local", {"personalizer": "local"}),
        ('data={name="npz",path="x"}', {"data": {"name": "npz", "path": "x"}}),
        ("personalizer.lam=2.0", {"personalizer": {"name": "ditto", "lam": 2.0}}),
        ("partition.split=[0.5,0,0.5]", {"partition": {"split": [0.5, 0, 0.5]}}),
        ('grid."train.lr"=[1, 2]', {"grid": {"train.lr": [1, 2]}}),
    ):
        tree = {"train": {"rounds": 9}, "personalizer": "ditto"}
        before = copy.deepcopy(tree)
        assert grid.override(tree, [assignment]) == {**tree, **expected}
        assert tree == before


def test_overrides_are_carried_out_in_order_or_refused():
    both = ["personalizer=local", "personalizer.lr=1", "personalizer.lr=2"]
    expected = {"personalizer": {"name": "local", "lr": 2}}
    assert grid.override({"personalizer": {"lam": 1}}, both) == expected
    wrong = ["seed", "=3", ".a=3", "a.=3", "a..b=3", "a b=3", "[a]=3", "#a=3"]
    for assignment in [*wrong, "a\nb=3", "", "a=\udcff"]:
        with pytest.raises(Refusal, match="is not of the form section.key=value; wr"):
            grid.override({}, [assignment])
    tree = {"seed": 0, "filter": [{"name": "clip"}], "train": {"lr": 0.1}}
    cases = {
        "seed.x=1": "seed.x cannot be set: seed = 0 is not a table; set seed as",
        "filter.norm=1": "filter.norm cannot be set: filter = .* is not a table",
        "train.lr.x.y=1": "train.lr.x.y cannot be set: train.lr = 0.1 is not a table",
    }
    for assignment, sentence in cases.items():
        with pytest.raises(Refusal, match=sentence):
            grid.override(tree, [assignment])


def test_expansion():
    grids = {"personalizer.lam": [0.1, 1.0], "seed": [0, 1]}
    tree = {"personalizer": "ditto", "grid": grids}
    before, runs = copy.deepcopy(tree), grid.expand(tree)
    assert tree == before
    assert [changed for changed, _ in runs] == [
        {"personalizer.lam": 0.1, "seed": 0},
        {"personalizer.lam": 0.1, "seed": 1},
        {"personalizer.lam": 1.0, "seed": 0},
        {"personalizer.lam": 1.0, "seed": 1},
    ]
    assert runs[1][1] == {"seed": 1, "personalizer": {"name": "ditto", "lam": 0.1}}
    runs[0][1]["personalizer"]["lam"] = 9  # the runs share nothing
    assert runs[1][1]["personalizer"]["lam"] == 0.1
    assert grid.expand({"seed": 1}) == [({}, {"seed": 1})]
    assert grid.expand({"seed": 1, "grid": {}}) == [({}, {"seed": 1})]
    tables = ["local", {"name": "ditto", "lam": 2.0}]
    runs = grid.expand({"grid": {"personalizer.lr": [0.1], "personalizer": tables}})
    assert [tree for _, tree in runs] == [
        {"personalizer": {"name": "local", "lr": 0.1}},
        {"personalizer": {"name": "ditto", "lam": 2.0, "lr": 0.1}},
    ]
    nested = grid.expand({"grid": {"personalizer": {"lam": [1.0]}, "seed": [0]}})
    assert nested == grid.expand({"grid": {"personalizer.lam": [1.0], "seed": [0]}})
    assert len(grid.expand({"grid": {"a": [True, 1]}})) == 2


def test_no_setting_is_lost_to_a_grid():
    grids = {"personalizer": ["none", {"name": "ditto"}], "train": {"lr": [0.1, 0.2]}}
    tree = {"grid": grids, "train": {"rounds": 3}}

    def axes(*assignments):
        made = grid.override(tree, list(assignments))
        changed = [list(change) for change, _ in grid.expand(made)]
        return changed[0], made

    every = ["personalizer", "train.lr"]
    assert axes("train.rounds=4")[0] == every
    for assignment in ("train.lr=0.3", "train={lr=0.3}"):
        found, made = axes(assignment)
        assert found == ["personalizer"] and made["train"]["lr"] == 0.3
    for assignment in ("personalizer=local", "personalizer.name=local"):
        found, made = axes(assignment, "personalizer.lr=0.5")
        assert found == ["train.lr"]
        assert made["personalizer"] == {"name": "local", "lr": 0.5}
    assert "grid" not in axes("train.lr=1", "personalizer=local")[1]
    with pytest.raises(Refusal, match="--set personalizer.lam would be lost: the grid"):
        axes("personalizer.lam=1")
    tree["grid"] = {**grids, "seed": [1]}
    with pytest.raises(Refusal, match="no run would use seed = 7, because grid.seed"):
        grid.expand({**tree, "seed": 7})
    assert len(grid.expand({**tree, "seed": 1})) == 4
    with pytest.raises(Refusal, match="grid.track would be lost"):
        grid.expand({"grid": {"track": ["tensorboard", "mlflow"]}})
    tree["seed"] = 7
    assert len(grid.expand(grid.override(tree, ["grid.seed=[1, 2]"]))) == 8


MANY = [*range(200)]


def test_bad_grids_are_refused():
    for table, sentence in (
        (3, "grid = 3 is not a table; write .grid. and under it keys with lists"),
        ({"seed": 3}, "grid.seed = 3 is not a list with values in it; write the va"),
        ({"seed": []}, r"grid.seed = \[\] is not a list with values in it"),
        ({"seed": "all"}, "grid.seed = 'all' is not a list with values"),
        ({"seed": [0, 1, 0]}, "grid.seed names 0 twice; every combination is run once"),
        ({"a.lam": [1, 1.0]}, "grid.a.lam names 1.0 twice"),
        ({"a": ["1", 1]}, "grid.a names 1 twice"),
        ({"a": [math.nan, math.nan]}, "grid.a names nan twice"),
        ({"a": [{"name": "b"}, {"name": "b"}]}, "grid.a names .'name': 'b'. twice"),
        ({"a.b": [1], "a": {"b": [2]}}, "grid names 'a.b' twice; keep one of the two"),
        ({"a..b": [1]}, "grid has the key 'a..b', which is not a valid key; write"),
        ({"a=b": [1]}, "grid has the key 'a=b', which is not a valid key; write"),
        ({"a": MANY, "b": MANY}, "makes 40000 runs; at most 10000 are allowed: short"),
    ):
        with pytest.raises(Refusal, match=sentence):
            grid.expand({"grid": table})


def test_label():
    for changed, expected in (
        ({}, ""),
        ({"personalizer.lam": 0.1, "seed": 2}, "lam=0.1,seed=2"),
        ({"personalizer": "ditto"}, "personalizer=ditto"),
        ({"personalizer.name": "ditto"}, "personalizer=ditto"),
        ({"personalizer": {"name": "ditto", "lam": 0.1}}, "personalizer=ditto+lam=0.1"),
        ({"train.lr": 1, "personalizer.lr": 2}, "train.lr=1,personalizer.lr=2"),
        ({"partition.split": [0.8, 0.1, 0.1]}, "split=0.8+0.1+0.1"),
        ({"output.personal": True}, "personal=true"),
        ({"train.lr": 1e-05}, "lr=1e-05"),
    ):
        assert grid.label(changed) == expected


def test_labels_that_lose_something_end_in_a_hash():
    one, two = grid.label({"solver": "a.b:c"}), grid.label({"solver": "a.b/c"})
    assert re.fullmatch(r"solver=-a.b-c-~[0-9a-f]{6}", one) and one != two


VALUES = st.text(max_size=150) | st.integers() | st.floats(allow_nan=False)


@settings(deadline=None, max_examples=50)
@given(st.lists(VALUES, min_size=1, max_size=4))
def test_labels_are_fit_for_folders_and_tell_runs_apart(values):
    try:
        runs = grid.expand({"grid": {"data.path": values, "seed": [0, 1]}})
    except Refusal:
        return
    labels = [grid.label(changed) for changed, _ in runs]
    assert len({*labels}) == len(labels)
    assert all(re.fullmatch(r"[A-Za-z0-9._=,+~-]{1,110}", x) for x in labels)


def test_differences():
    one = {"seed": 0, "train": {"lr": 0.1, "x": math.nan}, "p": {"lam": 1.0}, "f": []}
    two = {"seed": 0, "train": {"lr": 0.2, "x": math.nan}, "p": {}}
    two["f"] = [{"name": "a"}]
    two["resolved"], two["a.b"] = {"torch": "2.11"}, 1
    assert grid.differences(one, two) == {
        "train.lr": (0.1, 0.2),
        "p.lam": (1.0, None),
        "f": ([], [{"name": "a"}]),
        "p": (None, {}),
        '"a.b"': (None, 1),
    }
    assert grid.differences(one, one) == {}


FILE = tomllib.loads("""
partition = {name = "classes", clients = 9, per_client = 3, split = [0.5, 0.0, 0.5]}
train = {epochs = 2, optimizer = {name = "adam", beta1 = 0.5}}
personalizer = {name = "ditto", lam = 2.0, steps = 3}
attack = {name = "model_replacement", factor = 3.0}
""")
CHANGES = """
partition.name=dirichlet → partition = {name="dirichlet", clients=9, \
    split=[0.5, 0.0, 0.5]}
partition.name=classes →
partition.per_client=4 & partition.name=dirichlet → partition = {name="dirichlet", \
    clients=9, per_client=4, split=[0.5, 0.0, 0.5]}
partition={name="classes", per_client=4} & partition.name=dirichlet → \
    partition = {name="dirichlet", per_client=4}
personalizer.name=local → personalizer = {name="local", steps=3}
personalizer.epochs=1 → personalizer = {name="ditto", lam=2.0, epochs=1}
train.optimizer.name=sgd → train = {epochs=2, optimizer={name="sgd"}}
train.steps=5 → train = {steps=5, optimizer={name="adam", beta1=0.5}}
train.epochs=4 & train.steps=5 → train = {steps=5, epochs=4, optimizer={name="adam", \
    beta1=0.5}}
train.steps=0 → train = {steps=0, epochs=2, optimizer={name="adam", beta1=0.5}}
attack.name=none → attack = {name="none"}
"""
"""What is set, and the section as it then is; two may be there to be refused."""


@pytest.mark.parametrize("row", CHANGES.strip().splitlines())
def test_what_a_change_makes_meaningless_goes(row):
    before = copy.deepcopy(FILE)
    assignments, _, expected = row.partition(" →")
    found = grid.override(FILE, assignments.split(" & "))
    assert before == FILE and found == FILE | tomllib.loads(expected)


def test_a_grid_of_names_makes_room_too():
    tree = {**FILE, "grid": {"partition.name": ["classes", "dirichlet"]}}
    tree["grid"] |= {"train.steps": [1, 2]}
    runs = [made for _, made in grid.expand(tree)]
    assert [run["partition"].get("per_client") for run in runs] == [3, 3, None, None]
    assert all("epochs" not in run["train"] for run in runs)
    changes = ["partition.name=dirichlet", "partition.clients=5", "train.steps=2"]
    tree = {k: v for k, v in api.tree(None, changes).items() if k != "grid"}
    experiment = reader.from_dict(tree)
    assert experiment.partition.options["clients"] == 5
    assert (experiment.train.steps, experiment.train.epochs) == (2, 0)
    for name in ("nosuch", "no:such", "3", "[1]"):
        changed = grid.override(FILE, [f"partition.name={name}"])
        with pytest.raises(Refusal, match="partition"):
            reader.from_dict({**changed, "attack": "none"})
