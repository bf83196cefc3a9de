import json
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    hamming_loss,
    roc_auc_score,
)

from troth import lookup
from troth.evaluation.evaluate import score, success, summarise
from troth.types import Refusal


def sizes(draw, n):
    """Clients of 0 to 40 examples, some without any, and how many there are in all."""
    size = draw.integers(0, 41, n)
    size[draw.integers(0, n, n // 5)] = 0
    return size, int(size.sum())


def one_client(outputs, y, loss, classes):
    """Scores of a client that has all examples."""
    return score(outputs, y, loss, np.array([len(y)]), classes)


def plainly(outputs, y, loss, classes):
    """The scores of one client with sklearn; for finite outputs."""
    o, label = outputs.double().numpy(), y.numpy()
    margin = o[:, 0] if o.shape[1] == 1 else o[:, 1] - o[:, 0]
    guess = (margin > 0) * 1 if o.shape[1] == 1 else o.argmax(1)
    # sklearn warns of a guess that is no label; the mean recall is over labels
    recall = [(guess[label == c] == c).mean() for c in np.unique(label)]
    if set(guess) <= set(label) and len(recall) > 1:
        expected = balanced_accuracy_score(label, guess)
        assert np.mean(recall) == pytest.approx(expected)
    scores = {"accuracy": (guess == label).mean(), "loss": loss.double().mean().item()}
    if classes == 2:
        scores["auroc"] = roc_auc_score(label, margin) if len(recall) == 2 else np.nan
    return scores | {"balanced_accuracy": np.mean(recall)}


def check(ours, plain, arrays, size):
    """Client by client; those without examples have no score."""
    columns = [t.split(size.tolist()) for t in arrays]
    for k, parts in enumerate(zip(*columns, strict=True)):
        expected = plain(*parts) if size[k] else dict.fromkeys(ours, np.nan)
        found = {name: column[k] for name, column in ours.items()}
        assert found == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True)


@pytest.mark.parametrize(("classes", "k"), [(2, 1), (2, 2), (3, 3), (10, 10)])
def test_as_a_plain_loop_and_sklearn(classes, k):
    draw = np.random.default_rng(classes + k)
    size, m = sizes(draw, 60)
    # quarters: many ties
    outputs = torch.tensor(draw.integers(-6, 7, (m, k)) / 4, dtype=torch.float32)
    y = torch.tensor(draw.integers(0, classes, m))
    loss = torch.tensor(draw.random(m), dtype=torch.float32)
    ours = score(outputs, y, loss, size, classes)
    assert all(column.dtype == np.float64 for column in ours.values())
    check(ours, partial(plainly, classes=classes), (outputs, y, loss), size)


def test_regression_as_a_plain_loop():
    draw = np.random.default_rng(0)
    size, m = sizes(draw, 50)
    outputs = torch.tensor(draw.normal(size=(m, 1)))
    y, loss = torch.tensor(draw.normal(size=m)), torch.tensor(draw.random(m))

    def plain(o, label, losses):
        error = (o[:, 0] - label).square().mean().item()
        return {"error": error, "loss": losses.mean().item()}

    check(score(outputs, y, loss, size, 0), plain, (outputs, y, loss), size)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("k", [1, 2])
def test_outputs_that_are_not_finite_are_wrong(bad, k):
    y, loss = torch.tensor([0, 1, 0, 1]), torch.full((4,), bad)
    got = one_client(torch.full((4, k), bad), y, loss, 2)
    np.testing.assert_array_equal(got.pop("loss"), [bad])
    assert got == {"accuracy": 0, "balanced_accuracy": 0, "auroc": 0}


def test_one_bad_output_misses_one_example():
    outputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [np.nan, 1.0]])
    got = one_client(outputs, torch.tensor([0, 1, 1]), torch.zeros(3), 2)
    assert got["accuracy"][0] == pytest.approx(2 / 3)
    assert got["auroc"][0] == 0.5  # it loses to the negative, the other wins


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_diverged_regression_has_infinite_error(bad):
    outputs = torch.tensor([[bad], [0.0]], dtype=torch.float64)
    got = one_client(outputs, torch.zeros(2), torch.tensor([np.nan, 0.0]), 0)
    assert got["error"][0] == np.inf and np.isnan(got["loss"][0])


def test_bfloat16_and_gradients_are_read():
    outputs = torch.ones(2, 2, dtype=torch.bfloat16, requires_grad=True)
    got = one_client(outputs, torch.zeros(2), outputs.sum(1), 2)
    assert got["accuracy"] == 1.0  # equal outputs: the first class
    assert got["loss"] == 2.0


@pytest.mark.parametrize(("k", "classes", "several"), [(1, 0, 0), (1, 2, 0), (3, 3, 1)])
def test_no_clients_and_no_slots(k, classes, several):
    none, two = np.array([], dtype=np.int64), np.zeros(2, dtype=np.int64)
    y = torch.zeros(0, 3).long() if several else torch.zeros(0)
    nothing = torch.zeros(0, k), y, torch.zeros(0)
    for values in score(*nothing, none, classes).values():
        assert values.shape == (0,)
    for values in score(*nothing, two, classes).values():
        assert values.shape == (2,) and np.isnan(values).all()


def test_ranks_stay_exact_among_many_clients():
    n = 10_000
    outputs = torch.tensor([[0.0], [0.0], [1.0]]).repeat(n, 1)
    y = torch.tensor([0, 1, 1]).repeat(n)
    got = score(outputs, y, torch.zeros(3 * n), np.full(n, 3), 2)
    np.testing.assert_array_equal(got["auroc"], np.full(n, 0.75))


def by_sklearn(outputs, labels, loss):
    """One client, label by label."""
    o, y = outputs.numpy(), labels.numpy()
    guess, recalls, areas = (o > 0).astype(int), [], []
    for j in range(y.shape[1]):
        for value in np.unique(y[:, j]):
            chosen = y[:, j] == value
            recalls.append((guess[chosen, j] == value).mean())
        if 0 < y[:, j].sum() < len(y):
            areas.append(roc_auc_score(y[:, j], o[:, j]))
    return {
        "accuracy": 1 - hamming_loss(y, guess),
        "exact": accuracy_score(y, guess),  # sklearn's is that of whole rows
        "balanced_accuracy": float(np.mean(recalls)),
        "auroc": float(np.mean(areas)) if areas else np.nan,
        "loss": float(loss.mean()),
    }


@pytest.mark.parametrize("labels", [1, 2, 5])
def test_several_labels_as_sklearn(labels):
    draw = np.random.default_rng(labels)
    size, m = sizes(draw, 40)
    outputs = torch.tensor(draw.integers(-6, 7, (m, labels)) / 4)
    rare = draw.random(labels) ** 2  # some are nearly always there, or never
    y = torch.tensor((draw.random((m, labels)) < rare).astype(np.int64))
    loss = torch.tensor(draw.random(m))
    ours = score(outputs, y, loss, size, labels)
    assert [*ours] == ["accuracy", "exact", "balanced_accuracy", "auroc", "loss"]
    check(ours, by_sklearn, (outputs, y, loss), size)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_output_misses_one_label(bad):
    outputs = torch.tensor([[bad, 1.0], [bad, -1.0]])
    got = one_client(outputs, torch.tensor([[1, 1], [0, 0]]), torch.zeros(2), 2)
    assert got["accuracy"] == got["balanced_accuracy"] == 0.5 and got["exact"] == 0
    assert got["auroc"] == 0.5  # all lost by the first, all won by the second


def test_two_labels_are_not_two_classes():
    """The shape of y decides: with two labels there is a column for each."""
    y, none = torch.tensor([[1, 1], [0, 0]]), torch.zeros(2)
    got = one_client(torch.tensor([[1.0, 2.0], [-1.0, -2.0]]), y, none, 2)
    assert got["accuracy"][0] == got["exact"][0] == 1
    with pytest.raises(Refusal, match="1 output does not fit 2 labels .* must have 2"):
        one_client(torch.zeros(2, 1), y, none, 2)
    with pytest.raises(Refusal, match="from 0 to 2; .* must be 0 or 1"):
        one_client(torch.zeros(2, 2), 2 * y, none, 2)


def test_success_by_hand():
    outputs = torch.eye(3)[[0, 0, 1, 2, 0, 1]]
    wanted = torch.tensor([0, -1, 0, 2, -1, 1])
    found = success(outputs, wanted, np.array([2, 2, 1, 1, 0]), False)
    assert found.tolist()[:2] == [1.0, 0.5] and found[3] == 1.0
    assert np.isnan(found[[2, 4]]).all()  # none that counts; none at all


def test_success_of_a_margin_and_of_several_labels():
    size = np.array([4])
    margin = torch.tensor([[1.0], [-1.0], [2.0], [0.0]])
    wanted = torch.tensor([1, 1, 1, 0])
    assert success(margin, wanted, size, False).tolist() == [0.75]
    logits = torch.tensor([[-1.0, 2.0], [3.0, -1.0], [3.0, -1.0], [3.0, 0.0]])
    wanted = torch.tensor([1, 1, -1, 1])
    assert success(logits, wanted, size, True).tolist() == [1 / 3]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_no_success(value):
    outputs = torch.tensor([[value, 0.0], [1.0, 0.0]])
    wanted, size = torch.zeros(2, dtype=torch.long), np.array([2])
    for several in (False, True):
        assert success(outputs, wanted, size, several).tolist() == [0.5]


# Summaries over clients

ACCURACY = np.array([0.5, 1.0, 0.0, 0.75])
LOSS = np.array([1.0, 3.0, 100.0, 2.0])
SIZE = np.array([1, 1, 50, 2])
MALICIOUS = np.array([False, False, True, False])


def test_a_summary_by_hand():
    got = summarise({"accuracy": ACCURACY, "loss": LOSS}, SIZE, MALICIOUS)
    expected = {
        "accuracy_mean": 0.75,
        "accuracy_std": np.sqrt(0.125 / 3),
        "accuracy_weighted": 0.75,
        "accuracy_worst10": 0.5,
        "accuracy_best10": 1.0,
        "accuracy_jain": 2.25**2 / (3 * 1.8125),
        "loss_mean": 2.0,
        "loss_std": np.sqrt(2 / 3),
        "loss_worst10": 3.0,
        "loss_best10": 1.0,
        "malicious_accuracy_mean": 0.0,
    }
    assert {key: got[key] for key in expected} == pytest.approx(expected)
    lowest, *_, highest = got["accuracy_deciles"]
    assert (lowest, highest) == (0.5, 1.0)
    assert json.loads(json.dumps(got)) == got


def test_every_metric_of_every_column():
    names = lookup.names("metric")
    columns = ("accuracy", "loss", "balanced_accuracy", "auroc")
    table = dict.fromkeys(columns, ACCURACY)
    got = summarise(table, SIZE, np.zeros(4, dtype=bool))
    assert set(got) == {f"{c}_{m}" for c in columns for m in names}


def test_regression_speaks_of_errors():
    got = summarise({"error": LOSS, "loss": LOSS}, SIZE, MALICIOUS)
    assert got["error_mean"] == 2.0
    assert got["error_worst10"] == 3.0
    assert got["malicious_error_mean"] == 100.0
    assert not [k for k in got if "accuracy" in k]


def test_a_client_without_a_value_is_left_out_unless_it_diverged():
    auroc = np.array([np.nan, 0.5, 0.5, 1.0])
    assert summarise({"auroc": auroc}, SIZE, MALICIOUS)["auroc_mean"] == 0.75
    loss = np.array([np.nan, 1.0, np.nan])
    accuracy = np.array([0.0, 1.0, np.nan])  # the last client has no test set
    table = {"accuracy": accuracy, "loss": loss}
    got = summarise(table, np.array([5, 5, 0]), np.zeros(3, dtype=bool))
    assert (got["loss_mean"], got["accuracy_mean"]) == (np.inf, 0.5)
    assert np.isnan(loss[0])  # the table itself stays what it was


def test_all_malicious_is_nan():
    got = summarise({"accuracy": ACCURACY}, SIZE, np.ones(4, dtype=bool))
    assert np.isnan(got["accuracy_mean"])
    assert got["malicious_accuracy_mean"] == 0.5625


def test_success_of_an_attack_is_better_lower():
    success = np.array([0.2, 1.0, 0.9, np.nan])
    got = summarise({"attack_success": success}, SIZE, MALICIOUS)
    assert got["attack_success_mean"] == pytest.approx(0.6)
    assert got["attack_success_worst10"] == 1.0 and got["attack_success_best10"] == 0.2
    assert "malicious_attack_success_mean" not in got
