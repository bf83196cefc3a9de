"""What a server writes down."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch

from troth.config import reader
from troth.deployment import log, site
from troth.deployment.protocol import Answer
from troth.deployment.server import Hub

CARD = {
    **{"test": 8.0, "personal_accuracy": 0.5, "shared_accuracy": 0.25},
    **{"personal_loss": 1.0, "shared_loss": 2.0},
}
TREE: dict[str, Any] = {
    "train": {"rounds": 3, "batch": 4},
    "engine": {"device": "cpu"},
    "deployment": {"sites": ["a", "b", "c"], "shape": [4], "classes": 2},
}


def hub() -> Hub:
    return Hub(site.agreed(reader.from_dict(TREE)), "0" * 16)


def test_a_round_in_a_line() -> None:
    made = hub()
    made.serve({0: answer(1.0, {})})
    answers = {0: answer(1.0, CARD), 2: answer(4.0, {**CARD, "personal_accuracy": 1})}
    served, far = made.serve(answers)
    why = {"b": "it claims 0 examples"}
    line = log.noted(made, [0, 1, 2], answers, why, served, far)
    assert line["round"] == 1 and line["absent"] == [] and line["refused"] == why
    assert line["evaluation"]["round"] == 0
    assert line["evaluation"]["personal"]["accuracy_weighted"] == 0.75
    text = log.spoken(made, line)
    assert text == (
        "round 2 of 3: 2 replies, farthest a, accuracy before 0.750; b is not counted: "
        "it claims 0 examples"
    )
    served, far = made.serve({})
    line = log.noted(made, [0], {}, {}, served, far)
    assert line["absent"] == [0] and line["stayed"] and "evaluation" not in line
    assert "missing a; the shared model stays:" in log.spoken(made, line)


def answer(value: float, card: dict[str, float]) -> Answer:
    return Answer(torch.full((10,), value), torch.zeros(0), math.nan, 5, card)


def test_what_a_finished_run_leaves(tmp_path: Path) -> None:
    made = hub()
    cards = {2: CARD, 0: {**CARD, "personal_accuracy": 1.0}}
    log.conclude(made, tmp_path, cards)
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["personal"]["accuracy_mean"] == 0.75
    assert found["shared"]["accuracy_mean"] == 0.25
    assert found["heard"] == ["a", "c"] and found["clients"] == 3
    table = (tmp_path / "clients.csv").read_text().splitlines()
    assert table[1].startswith("0,a,1.0") and table[2].startswith("2,c,0.5")
    log.conclude(made, tmp_path, {})
    assert "personal" not in json.loads((tmp_path / "summary.json").read_text())
