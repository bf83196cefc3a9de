"""What an attacker wants, and how near it came."""

import numpy as np
import pytest
import torch

from troth import build
from troth.config import reader
from troth.poison import goal
from troth.runs import train
from troth.types import Refusal


@pytest.fixture(scope="module")
def built():
    tree = {
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "linear"},
        "engine": {"device": "cpu"},
    }
    return build.build(reader.from_dict(tree), plan=train.UNMEASURED)


def test_a_model_of_everyones_data_with_labels_changed(built):
    y = torch.arange(10)
    assert goal.wanted(built, "shift_labels", y).tolist() == [*range(1, 10), 0]
    aim, again = (goal.goal(built, "shift_labels", 60, 0.05) for _ in range(2))
    true, aimed = goal.judged(built, aim, aim.target)
    assert true < 0.1 and aimed > 0.9
    assert torch.equal(aim.target, again.target)
    start = built.federation.broadcast.w.double()
    assert goal.judged(built, aim, start)[1] < 0.5  # it learned


def test_by_hand(built):
    """A model that always says 3: by true labels as often as there is a 3."""
    w = torch.zeros(650, dtype=torch.float64)
    w[640 + 3] = 1.0
    y = built.data.test.y
    true, aimed = goal.judged(built, goal.Goal(w, "shift_labels"), w)
    assert true == pytest.approx(float((y == 3).double().mean()))
    assert aimed == pytest.approx(float((y == 2).double().mean()))


def test_out_of_a_file_its_own_answers_are_wanted(built, tmp_path):
    file = tmp_path / "model.npy"
    np.save(file, np.random.default_rng(0).normal(size=650))
    aim = goal.goal(built, str(file), 0, 0.0)
    assert goal.judged(built, aim, aim.target)[1] == 1.0


@pytest.mark.parametrize(
    ("name", "epochs", "lr", "words"),
    [
        ("shift_labels", 0, 0.1, "trained for 0 epochs"),
        ("shift_labels", 5, 0.0, "5 epochs with learning rate 0.0"),
        ("random_labels", 5, 0.1, "is not a rule that changes labels alone"),
        ("noise_features", 5, 0.1, "is not a rule that changes labels alone"),
        ("nowhere.npy", 5, 0.1, "there is no target 'nowhere.npy'"),
    ],
)
def test_refusals(built, name, epochs, lr, words):
    with pytest.raises(Refusal, match=words):
        goal.goal(built, name, epochs, lr)
