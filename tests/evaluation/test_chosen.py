import numpy as np
import pytest
import torch

import troth
from troth.build import build
from troth.config import reader
from troth.config.schema import Part
from troth.evaluation import chosen
from troth.evaluation.evaluate import lower_is_better
from troth.runs.train import UNMEASURED

TREE = {
    "partition": {"name": "iid", "clients": 4},
    "train": {"rounds": 2},
    "engine": {"how": "loop"},
}


def share(y, predicted):
    """A score of a user: share of examples that are predicted as 3."""
    return (predicted == 3).mean()


def accuracy(y, predicted):
    return 0.5


client = lam = shared_share = accuracy


def words(y):
    return "much"


def test_scores_of_a_run(tmp_path):
    """Columns of clients.csv; the recalls are those of the model's predictions."""
    scores = ["recall", {"name": "calibration_error", "bins": 5}, share]
    tree = {**TREE, "evaluate": {"scores": scores}}
    (run,) = troth.run(tree, out=tmp_path / "run")
    table = run.clients
    built = build(run.experiment, plan=UNMEASURED)
    assert {"recall_0", "recall_9", "calibration_error", "share"} <= {*table}
    assert {"shared_share", "accuracy"} <= {*table}
    test = built.data.test
    for client in range(4):
        start, size = int(test.start[client]), int(test.size[client])
        x = built.data.x[test.row[start : start + size]].numpy()
        y, guess = test.y[start : start + size].numpy(), run.predict(client, x)
        assert table["share"][client] == pytest.approx((guess == 3).mean())
        expected = (guess[y == 2] == 2).mean() if (y == 2).any() else np.nan
        assert table["recall_2"][client] == pytest.approx(expected, nan_ok=True)
    personal = run.summary["personal"]
    assert personal["share_mean"] == pytest.approx(table["share"].mean())
    assert personal["calibration_error_worst10"] == table["calibration_error"].max()
    (plain,) = troth.run(TREE, out=tmp_path / "plain")
    for name in ("accuracy", "loss"):
        assert (plain.clients[name] == table[name]).all()


def test_no_scores_leave_the_id(tmp_path):
    before = reader.fingerprint(reader.from_dict(TREE))
    empty = reader.from_dict({**TREE, "evaluate": {"scores": []}})
    assert reader.fingerprint(empty) == before
    some = reader.from_dict({**TREE, "evaluate": {"scores": ["f1"]}})
    assert reader.fingerprint(some) != before


def test_refusals(refuses, tmp_path):
    def run(**tree):
        return lambda: troth.run({**TREE, **tree}, out=tmp_path / "run")

    twice = {"scores": ["f1", "f1"]}
    refuses("evaluate.scores names 'f1' twice", run(evaluate=twice))
    text = {"scores": [words]}
    refuses("score 'words' returns 'much'; it must return a number", run(evaluate=text))
    for name in ("accuracy", "client", "lam", "shared_share"):
        scores = {"scores": [share, f"{__name__}:{name}"]}
        choice = {"name": "ditto", "lam": "auto"}
        taken = f"the score '{name}' of evaluate.scores has the name of another column"
        refuses(taken, run(evaluate=scores, personalizer=choice))
    line = {"name": "linear_regression", "clients": 4}
    refuses(
        "score 'f1' is for data with one class",
        run(evaluate={"scores": ["f1"]}, data=line, partition="natural"),
    )
    assert not (tmp_path / "run").exists()


def test_margins_several_labels_and_clients_without_examples():
    seen = []

    def look(y, predicted, probability):
        seen.append((predicted.tolist(), np.round(probability, 3).tolist()))
        return {"a": 1, "b": len(y)}

    score = [chosen.Chosen("look", look, {})]
    size = np.array([1, 0, 1])
    margins = torch.tensor([[2.0], [torch.nan]])
    found = chosen.columns(score, margins, torch.tensor([1, 0]), size, 2)
    assert seen[0] == ([1], [[0.119, 0.881]]) and seen[1][0] == [-1]
    assert {*found} == {"look_a", "look_b"}
    assert np.isnan(found["look_b"]).tolist() == [False, True, False]
    several = torch.tensor([[1.0, -1.0]])
    chosen.columns(score, several, torch.tensor([[1, 0]]), np.array([1]), 2)
    assert seen[2] == ([[1, 0]], [[0.731, 0.269]])
    lost = torch.tensor([[torch.inf, torch.nan]])
    chosen.columns(score, lost, torch.tensor([[1, 0]]), np.array([1]), 2)
    assert seen[3][0] == [[-1, -1]]
    assert chosen.chosen([Part("f1", {})])[0].name == "f1"


def test_lower_is_better():
    for name in ("loss", "error", "calibration_error", "my_loss"):
        assert lower_is_better(name)
    assert not lower_is_better("f1") and not lower_is_better("terror_share")
