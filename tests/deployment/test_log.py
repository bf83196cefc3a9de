"""What a server writes down."""

import json

from troth.deployment import log

CARD = {
    **{"test": 8.0, "personal_accuracy": 0.5, "shared_accuracy": 0.25},
    **{"personal_loss": 1.0, "shared_loss": 2.0},
}


def test_a_round_in_a_line(hub, answer):
    made = hub()
    made.serve({0: answer(1)})
    answers = {0: answer(1, CARD), 2: answer(4, {**CARD, "personal_accuracy": 1})}
    served, far = made.serve(answers)
    why = {"b": "it claims 0 examples"}
    line = log.noted(made, [0, 1, 2], answers, why, served, far)
    assert line["round"] == 1 and line["absent"] == [] and line["refused"] == why
    assert line["evaluation"]["round"] == 0
    assert line["evaluation"]["personal"]["accuracy_weighted"] == 0.75
    assert log.spoken(made, line) == (
        "round 2 of 3: 2 replies, a farthest from the aggregate, accuracy before "
        "training 0.750; b is not counted: it claims 0 examples"
    )
    line = log.noted(made, [0], {}, {}, *made.serve({}))
    assert line["absent"] == [0] and line["stayed"] and "evaluation" not in line
    assert "no reply from a; the shared model does not change:" in log.spoken(
        made, line
    )


def test_what_a_finished_run_leaves(hub, tmp_path):
    made = hub()
    odd = {"personal": 1.0, "sharedx": 1.0, "x": 2.0}  # anybody's names
    log.conclude(made, tmp_path, {2: CARD, 0: {**CARD, "personal_accuracy": 1, **odd}})
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["personal"]["accuracy_mean"] == 0.75
    assert found["shared"]["accuracy_mean"] == 0.25
    assert found["heard"] == ["a", "c"] and found["clients"] == 3
    table = (tmp_path / "clients.csv").read_text().splitlines()
    at = table[0].split(",").index("personal_accuracy")
    rows = [line.split(",") for line in table[1:]]
    assert [(*row[:2], row[at]) for row in rows] == [
        ("0", "a", "1.0"),
        ("2", "c", "0.5"),
    ]
    log.conclude(made, tmp_path, {})
    assert "personal" not in json.loads((tmp_path / "summary.json").read_text())
