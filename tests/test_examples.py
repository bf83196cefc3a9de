import importlib
import sys
from pathlib import Path

import pytest

from troth.engine import plan
from troth.engine.local_training import Plan

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Run an example by name, for two rounds; the lines that it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        plan, "choose", lambda *_, **__: Plan("vmap", 10)
    )  # no measuring
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name):
        importlib.import_module(name).main(rounds=2)
        return capsys.readouterr().out.splitlines()

    yield run
    for script in SCRIPTS:
        sys.modules.pop(script.stem, None)


def test_every_example_is_tested_and_short():
    names = {script.stem for script in SCRIPTS}
    assert names == {"compare", "own_data", "own_network", "own_rule"}
    for script in SCRIPTS:
        text = script.read_text("utf-8")
        assert text.count("\n") < 100 and '__name__ == "__main__"' in text


def test_own_data(said, tmp_path):
    shared, personal, weights, predicted = said("own_data")
    assert shared.startswith("shared model: accuracy 0.")
    assert personal.startswith("personal model: accuracy 0.")
    assert weights == "sensor 3 has 6 weights" and predicted.startswith("it says [")
    assert list(tmp_path.iterdir()) == []  # it cleans up behind itself


@pytest.mark.slow("trains an example")
def test_own_network(said, tmp_path):
    first, second, numbers = said("own_network")
    assert first.startswith("one model for all: accuracy 0.")
    assert second.startswith("each its own last layer: accuracy ")
    assert numbers == "2570 trained, 192 frozen"
    assert list(tmp_path.iterdir()) == []


def test_own_rule(said):
    alone, mean, trimmed = said("own_rule")
    assert alone == "of 1, 2, 3, 1000: 2.5"
    assert mean.startswith("mean ") and trimmed.startswith("own_rule:trimmed ")


@pytest.mark.slow("five runs of 16 clients")
def test_compare(said):
    lines = said("compare")
    assert len(lines) == 5
    assert lines[0].startswith("personalizer=none ")
    assert lines[3].startswith("personalizer=local against personalizer=none: ")
    assert all("of 16 clients, p = " in line for line in lines[3:])
