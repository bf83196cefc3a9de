"""`troth.aggregate`: a matrix in, a vector out, by the name of a rule.

Its docstring has the worked example: names, options and what comes out.
"""

import pytest
import torch

import troth

UPDATES = torch.tensor([[0.0], [1.0], [2.0], [3.0], [100.0], [-7.0], [4.0]])


def test_losses_and_sizes_are_given_beside():
    loss = torch.arange(7.0)
    assert troth.aggregate("k_loss", UPDATES, loss=loss, f=2).item() == 100.0
    size = torch.tensor([1, 0, 0, 3, 0, 0, 0])
    assert troth.aggregate("weighted_mean", UPDATES, size=size).item() == 2.25
    rows = torch.tensor([[0.0], [3.0]])
    assert troth.aggregate("weighted_mean", rows, size=[1, 2]).item() == 2.0
    assert troth.aggregate("term", rows, loss=[1.0, 1.0]).item() == 1.5


def test_rules_that_remember_start_anew():
    twice = [troth.aggregate("centered_clipping", UPDATES, tau=1.0) for _ in "ab"]
    assert torch.equal(*twice)


BAD = torch.ones(3, 2)
BAD[1, 0] = float("nan")


def test_refused():
    for name, given, options, words in (
        ("term", UPDATES, {}, "'term' uses the clients' losses; give"),
        ("mean", UPDATES, {"loss": torch.ones(2)}, r"loss of shape \[2\] .* 7 updates"),
        ("mean", UPDATES, {"size": torch.ones(2)}, r"size of shape \[2\] .* 7 updates"),
        ("krum", UPDATES, {}, "krum's f = 'auto' .* such as f = 2"),
        ("mean", torch.ones(3), {}, "not a matrix"),
        ("mean", torch.ones(0, 2), {}, "not a matrix"),
        ("median", UPDATES.long(), {}, "updates are torch.int64; they must be a ten"),
        ("median", UPDATES.numpy(), {}, "updates are ndarray; they must be a ten"),
        ("median", [[1.0]], {}, "updates are list; they must be a ten"),
        ("trimmed_mean", UPDATES, {"trim": 1}, "has no option 'trim'"),
        ("krum", BAD, {"f": 0}, r"in row 1 \(1 of 3 rows\)"),
        ("krum", BAD.nan_to_num(torch.inf), {"f": 0}, r"in row 1 \(1 of 3 rows\)"),
    ):
        with pytest.raises(troth.Refusal, match=words):
            troth.aggregate(name, given, **options)


def test_run_refuses_what_is_no_experiment_and_no_viewer(refuses, tmp_path):
    tree = {"partition": {"clients": 2}, "train": {"rounds": 1}}
    refuses("experiment is of type list; it must be the path", troth.run, [tree])
    out = tmp_path / "run"
    refuses("watch= is of type bool", troth.run, tree, watch=True, out=out)
    refuses("no section 'trian'", troth.run, tree, settings="trian.lr=1", out=out)
    assert not out.exists()


def test_the_time_of_a_run_is_estimated():
    """By one measurement per workload; nothing is measured unless asked for."""
    tree = {"partition": {"clients": 4}, "train": {"rounds": 10}}
    [cost] = troth.cost(tree)
    assert cost.seconds is None
    grid = {"seed": [0, 1], "train.rounds": [10, 20]}
    found = troth.cost({**tree, "train": {}, "grid": grid}, timed=True)
    for ten, twenty in (found[:2], found[2:]):
        assert 0 < ten.seconds < twenty.seconds
    assert found[0].seconds == found[2].seconds * found[0].client_steps / (
        found[2].client_steps
    )
    fixed = {**tree, "engine": {"how": "loop"}}
    assert troth.cost(fixed, timed=True)[0].seconds is None


def first(messages, *, row: int = 0):
    """An aggregator: one client's update."""
    return messages.update[row]


def test_functions_are_passed_as_they_are(refuses):
    """The experiment stores their names, so that a run can be resumed."""
    name = f"{__name__}:first"
    tree = {"aggregator": first, "partition": {"clients": 4}}
    [alone] = troth.cost(tree)
    assert alone.experiment.aggregator.name == name
    grid = {"aggregator": [{"name": first, "row": 1}, "median"]}
    own, _ = troth.cost({"partition": {"clients": 4}, "grid": grid})
    assert own.experiment.aggregator.name == name
    assert own.experiment.aggregator.options == {"row": 1}
    unnamed = {"aggregator": lambda messages: messages.update[0]}
    refuses("define it with def, outside other functions", lambda: troth.cost(unnamed))
