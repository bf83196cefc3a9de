import json
import sys

import numpy as np
import pytest

from troth import lookup
from troth.evaluation import metrics
from troth.evaluation.evaluate import summarise

ACCURACY = np.array([0.5, 1.0, 0.0, 0.75])
LOSS = np.array([1.0, 3.0, 100.0, 2.0])
SIZE = np.array([1, 1, 50, 2])
MALICIOUS = np.array([False, False, True, False])


def test_by_hand():
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


def test_a_new_metric_is_found_by_its_file(tmp_path, monkeypatch):
    (tmp_path / "lowest.py").write_text(
        "def lowest(values, *, plus: float = 1.0):\n    return values.min() + plus\n"
    )
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(tmp_path)])
    got = summarise({"accuracy": ACCURACY}, SIZE, MALICIOUS)
    monkeypatch.delitem(sys.modules, "troth.evaluation.metrics.lowest")
    assert got["accuracy_lowest"] == 1.5


def test_success_of_an_attack_is_better_lower():
    success = np.array([0.2, 1.0, 0.9, np.nan])
    got = summarise({"attack_success": success}, SIZE, MALICIOUS)
    assert got["attack_success_mean"] == pytest.approx(0.6)
    assert got["attack_success_worst10"] == 1.0 and got["attack_success_best10"] == 0.2
    assert "malicious_attack_success_mean" not in got
