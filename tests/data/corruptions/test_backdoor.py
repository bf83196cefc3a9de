import math

import pytest
import torch

import troth
from troth.data import load
from troth.data.corruptions.backdoor import aim, backdoor
from troth.types import Refusal

DEFAULTS = {"target": 0, "size": 3, "corner": "bottom_right", "value": 1.0}
LABELS = torch.zeros(4, dtype=torch.long)


def images(m=4, dtype=torch.uint8):
    return torch.arange(m * 2 * 4 * 5).reshape(m, 2, 4, 5).remainder(7).to(dtype)


def test_where_it_is_and_its_color():
    for corner, rows, columns in (
        ("bottom_right", [2, 3], [3, 4]),
        ("bottom_left", [2, 3], [0, 1]),
        ("top_right", [0, 1], [3, 4]),
        ("top_left", [0, 1], [0, 1]),
    ):
        x, y = images(), torch.tensor([0, 1, 2, 1])
        before = x.clone(), y.clone()
        shown, labels = backdoor(x, y, 3, 255.0, target=2, size=2, corner=corner)
        inside = torch.zeros(4, 5, dtype=torch.bool)
        for r in rows:
            inside[r, columns] = True
        assert bool((shown[..., inside] == 255).all())
        assert torch.equal(shown[..., ~inside], x[..., ~inside])
        assert labels.tolist() == [2, 2, 2, 2]
        assert torch.equal(x, before[0]) and torch.equal(y, before[1])
    whole = backdoor(torch.zeros(4, 1, 3, 3), LABELS, 2, 1.0)[0]
    assert bool((whole == 1).all())  # it may cover the image
    for dtype, scale, value, expected in (
        (torch.uint8, 255.0, 1.0, 255),
        (torch.uint8, 255.0, 0.5, 128),  # 127.5
        (torch.uint8, 16.0, 1.0, 16),
        (torch.float32, 1.0, 0.25, 0.25),
        (torch.float64, 255.0, -2.0, -510.0),
    ):
        shown, _ = backdoor(images(dtype=dtype), LABELS, 3, scale, value=value)
        assert shown.dtype == dtype and bool((shown[:, :, 1:, 2:] == expected).all())


def test_it_is_after_other_classes():
    x, y = images(), torch.tensor([0, 1, 2, 1])
    shown, wanted = aim(x, y, 3, 255.0, **DEFAULTS | {"target": 1})
    assert wanted.tolist() == [1, -1, 1, -1]
    assert torch.equal(shown, backdoor(x, y, 3, 255.0, target=1)[0])
    several = torch.tensor([[0, 0, 1], [1, 1, 0]])  # the target is added to them
    _, labels = backdoor(images(2), several, 3, 255.0, target=1)
    assert labels.tolist() == [[0, 1, 1], [1, 1, 0]]
    _, wanted = aim(images(2), several, 3, 255.0, **DEFAULTS | {"target": 1})
    assert wanted.tolist() == [1, -1]


BAD = [
    ({"x": torch.zeros(4, 784)}, r"one example here has shape \[784\]; set"),
    ({"y": torch.zeros(4), "classes": 0}, "this data set is a regression"),
    ({"target": 3}, r"corruption\.target = 3 is no label .* has 3 classes, 0 … 2"),
    ({"size": 5}, r"corruption\.size = 5 does not fit images of 4×5 .* at most 4"),
    *(({"size": v}, rf"corruption\.size = {v} does not fit") for v in (0, -2)),
    ({"value": 1.1}, r"corruption\.value = 1.1 is a pixel of 280.5.* at most 1$"),
    ({"value": -0.1}, "must be a finite number, at least 0 and at most 1"),
    ({"value": math.nan}, "must be a finite number"),
    ({"value": 1e39, "x": images().float()}, "must be a finite number$"),
]


def test_refuses(refuses):
    for change, words in BAD:
        given = {"x": images(), "y": LABELS, "classes": 3, "scale": 255.0, **DEFAULTS}
        for function in (backdoor, aim):
            refuses(words, function, **given | change)


# Whole runs.

TREE = {
    "partition": {"name": "iid", "clients": 10},
    "train": {"rounds": 12, "epochs": 2, "batch": 16, "lr": 0.5},
    "evaluate": {"every": 6},
    "personalizer": {"name": "ditto", "lam": 0.1},
    "adversary": {"count": 3},
    "corruption": {"name": "backdoor", "target": 4, "share": 0.5},
    "engine": {"how": "vmap", "chunk": 10, "device": "cpu"},
}


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    [found] = troth.run(TREE, out=tmp_path_factory.mktemp("backdoor") / "run")
    return found


def means(run, column):
    return [run.summary[kind][f"{column}_mean"] for kind in ("personal", "shared")]


@pytest.mark.filterwarnings("ignore:corruption 'backdoor' has no effect")
def test_it_gets_through_to_the_mean_and_not_by_chance(poisoned, tmp_path):
    [clean] = troth.run(TREE | {"adversary": {"count": 0}}, out=tmp_path / "clean")
    assert clean.experiment.corruption.name == "backdoor"
    success, chance = means(poisoned, "attack_success"), means(clean, "attack_success")
    assert success[1] > 0.8 and chance[1] < 0.1  # of the shared model
    assert success[0] > chance[0] + 0.1
    pairs = zip(means(poisoned, "accuracy"), means(clean, "accuracy"), strict=True)
    assert all(a > b - 0.05 for a, b in pairs)  # accuracy does not tell
    assert poisoned.summary["shared"]["attack_success_worst10"] >= success[1]


def test_success_is_what_the_saved_models_do_and_is_written(poisoned):
    """Counted again by hand, from the files and the raw data."""
    table, benign = poisoned.clients, poisoned.clients["malicious"] == 0
    for prefix, kind in (("", "personal"), ("shared_", "shared")):
        column = table[prefix + "attack_success"]
        assert ((column >= 0) & (column <= 1)).all()
        mean = poisoned.summary[kind]["attack_success_mean"]
        assert column[benign].mean() == pytest.approx(mean, abs=1e-15)
        assert poisoned.rounds[-1]["evaluation"][kind]["attack_success_mean"] == mean
    assert len([r for r in poisoned.rounds if "evaluation" in r]) == 2
    arrays, shards, _ = load.deal(poisoned.experiment, None)
    for client in (0, 5):
        rows = shards.test[client]
        x, y = arrays.x[rows].copy(), arrays.y[rows]
        x[:, :, -3:, -3:] = 16
        for model, column in (
            (poisoned.model(client), "attack_success"),
            (poisoned.shared(), "shared_attack_success"),
        ):
            with torch.no_grad():
                said = model(torch.from_numpy(x)).argmax(1).numpy()
            expected = (said[y != 4] == 4).mean()
            found = poisoned.clients[column][client]
            assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:corruption 'backdoor' has no effect")
def test_refused_before_anything_is_written(tmp_path):
    tree = TREE | {"corruption": {"name": "backdoor", "target": 10}}
    for n in (0, 3):
        tree["adversary"] = {"count": n}
        with pytest.raises(Refusal, match=r"corruption\.target = 10 is no label"):
            troth.run(tree, out=tmp_path / "r")
        assert not (tmp_path / "r").exists()
