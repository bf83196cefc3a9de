"""Which model is suggested to a client, by worked examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from troth import cards, dossier


def said(paths: list[Path], client: int) -> tuple[str, str, list[str]]:
    """The run and rule that were chosen, and the sentences."""
    (deck,) = cards.decks(dossier.opened(paths))
    choice = deck.choices[client]
    run = choice.model.label if choice.model else ""
    return run, choice.why, [cards.words(each) for each in choice.said]


def test_the_first_on_average(told: Any, tmp_path: Path) -> None:
    a = told(tmp_path / "a", [0.8, 0.9, 1.0, 0.9], shared=[0.5] * 4)
    b = told(
        tmp_path / "b", [0.7, 0.9, 0.9, 0.8], shared=[0.5] * 4, personalizer="local"
    )
    run, why, words = said([a, b], 2)
    assert (run, why) == ("a", "average")
    assert words[0] == (
        "Use a for client 2: of the 3 models here it has the highest mean accuracy "
        "on test data of 4 benign clients, 0.900; next comes b with 0.825."
    )
    assert words[1].startswith(
        "On test data, client by client, a differs from b by +0.075 on average, "
    )
    assert words[2] == (
        "On the 10 test examples of client 2 it has 1.000, and no other model here has "
        "more."
    )
    assert (
        words[-1] == f"To predict with it: troth predict {a} --client 2 --data FILE.npz"
    )


def test_one_client_s_few_examples_do_not_decide(told: Any, tmp_path: Path) -> None:
    a = told(tmp_path / "a", [0.6, 0.9, 1.0, 0.9])
    b = told(tmp_path / "b", [0.8, 0.8, 0.8, 0.8], personalizer="local")
    run, why, words = said([a, b], 0)
    assert (run, why) == ("a", "average")
    # Clopper and Pearson: 8 of 10 and 6 of 10
    assert (
        "On the 10 test examples of client 0 b has 0.800, and a has 0.600. Their 95 % "
        "intervals, 0.444 to 0.975 and 0.262 to 0.878, overlap: 10 examples do not "
        "decide, and the average over clients does." in words
    )


def test_one_client_s_many_examples_do(told: Any, tmp_path: Path) -> None:
    size = [10, 400, 10, 10]
    a = told(tmp_path / "a", [1.0, 0.5, 1.0, 1.0], test=size)
    b = told(tmp_path / "b", [0.6, 0.9, 0.6, 0.6], test=size, personalizer="local")
    run, why, words = said([a, b], 1)
    assert (run, why) == ("b", "own")
    assert words[0] == (
        "Use b for client 1: on its 400 test examples it has 0.900 (95 % interval "
        "0.866 to 0.928), and a, which is first on average, has 0.500 (0.450 to "
        "0.550); the two intervals do not meet."
    )
    assert said([a, b], 0)[:2] == ("a", "average")


def test_sure_only_where_interval_and_test_agree(told: Any, tmp_path: Path) -> None:
    better = np.linspace(0.6, 0.9, 20)
    a = told(tmp_path / "a", better, shared=better)
    b = told(tmp_path / "b", better - 0.1, shared=better, personalizer="local")
    _, _, words = said([b, a], 0)
    assert (
        "client by client" in words[1] and "do not tell" in words[1]
    )  # a = its shared
    c = told(tmp_path / "c", better, shared=better - 0.2)
    d = told(tmp_path / "d", better - 0.1, shared=better - 0.2, personalizer="local")
    _, _, words = said([c, d], 0)
    assert words[1] == (
        "On test data, client by client, c is ahead of d by +0.100 on average, 95 % "
        "interval +0.100 to +0.100, p < 0.001."
    )


def test_a_hostile_client_gets_no_advice(told: Any, tmp_path: Path) -> None:
    a = told(tmp_path / "a", [0.8, 0.9], hostile=[True, False], corruption="auto")
    assert said([a], 0) == (
        "",
        "hostile",
        [
            "Client 0 is marked hostile in this experiment; no model is suggested for "
            "it."
        ],
    )


def test_a_client_without_test_data(told: Any, tmp_path: Path) -> None:
    a = told(tmp_path / "a", [0.8, np.nan], shared=[0.5, np.nan], test=[10, 0])
    run, _, words = said([a], 1)
    assert run == "a" and "Client 1 has no test result of its own." in words


def test_the_shared_model_where_it_is_first(told: Any, tmp_path: Path) -> None:
    a = told(tmp_path / "a", [0.5, 0.5], shared=[0.9, 0.9])
    run, _, words = said([a], 1)
    assert run == "the shared model"
    assert words[-1] == f"To predict with it: troth.load('{a}').shared(1)"


def test_a_shared_model_counts_once(told: Any, tmp_path: Path) -> None:
    a = told(tmp_path / "a", [0.9, 0.9], shared=[0.5, 0.5])
    b = told(tmp_path / "b", [0.5, 0.5], personalizer="none")
    _, _, words = said([a, b], 0)
    assert "of the 2 models here" in words[0] and "next comes b with 0.500" in words[0]


def with_valid(path: Path, own: float, shared: float) -> Path:
    """The run, with means on validation data."""
    summary = json.loads((path / "summary.json").read_text())
    kinds = {"personal": own, "shared": shared}
    summary["valid"] = {k: {"accuracy_mean": v} for k, v in kinds.items()}
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_validation_data_choose_where_there_are_any(told: Any, tmp_path: Path) -> None:
    """Test data would say a; they say so, and change nothing."""
    better = np.linspace(0.6, 0.9, 20)
    low = better - 0.3
    a = told(tmp_path / "a", better, shared=low)
    b = told(tmp_path / "b", better - 0.1, shared=low, personalizer="local")
    assert said([a, b], 3)[0] == "a"
    run, _, words = said([with_valid(a, 0.7, 0.4), with_valid(b, 0.8, 0.4)], 3)
    assert run == "b"
    assert words[0] == (
        "Use b for client 3: of the 3 models here it has the highest mean accuracy "
        "on validation data of 20 benign clients, 0.800; next comes a with 0.700."
    )
    assert words[1] == (
        "On test data, client by client, b is behind a: −0.100 on average, 95 % "
        "interval −0.100 to −0.100, p < 0.001. Test data are not there to choose by."
    )
