"""Which model is suggested to a client, by worked examples."""

import json

import numpy as np

from troth.reports import cards
from troth.runs import inspect


def said(paths, client):
    """The run and rule that were chosen, and the sentences."""
    (deck,) = cards.decks(inspect.opened(paths))
    choice = deck.choices[client]
    run = choice.model.label if choice.model else ""
    return run, choice.why, [cards.words(each) for each in choice.sentences]


def test_the_first_on_average(told, tmp_path):
    shared = [0.5] * 4
    a = told(tmp_path / "a", [0.8, 0.9, 1.0, 0.9], shared=shared)
    b = told(tmp_path / "b", [0.7, 0.9, 0.9, 0.8], shared=shared, personalizer="local")
    run, why, words = said([a, b], 2)
    assert (run, why) == ("a", "average")
    assert words[0] == (
        "Use “a” for client 2: of 3 models it has the highest mean accuracy on the "
        "test data of 4 benign clients, 0.900. Next comes “b” with 0.825."
    )
    assert words[1].startswith(
        "On test data “a” has 0.075 more accuracy than “b”, on average over 4 clients: "
        "it is better for 3, worse for 0 and equal for 1. "
    )
    assert words[2] == (
        "On the 10 test examples of client 2 it has 1.000, more than every other model "
        "here."
    )
    assert words[-2:] == [
        f"To predict with it: troth predict {a} --client 2 --data FILE.npz",
        'Write your inputs with np.savez("FILE.npz", x=…). x has the shape [examples, '
        "1, 8, 8] and the units of the training data. Add y=… with the true labels to "
        "score the predictions.",
    ]


def test_a_tie_names_those_that_are_equal(told, tmp_path):
    a = told(tmp_path / "a", [0.8, 0.9, 0.9, 0.9], shared=[0.5, 0.9, 0.4, 0.4])
    b = told(tmp_path / "b", [0.7, 0.9, 0.9, 0.8], shared=[0.5, 0.9, 0.4, 0.4])
    words = said([a, b], 2)[2]
    assert words[2] == (
        "On the 10 test examples of client 2 it has 0.900, the same as “b”. No model "
        "here has more."
    )
    words = said([a, b], 1)[2]
    assert "the same as “b” and the shared model. No model" in words[2]
    assert "more than every other model here." in said([a, b], 0)[2][2]


def test_one_client_s_few_examples_do_not_decide(told, tmp_path):
    a = told(tmp_path / "a", [0.6, 0.9, 1.0, 0.9])
    b = told(tmp_path / "b", [0.8, 0.8, 0.8, 0.8], personalizer="local")
    run, why, words = said([a, b], 0)
    assert (run, why) == ("a", "average")
    # Clopper and Pearson: 8 of 10 and 6 of 10
    assert (
        "On the 10 test examples of client 0, “b” has 0.800 and “a” has 0.600. Their "
        "95 % intervals, 0.444 to 0.975 and 0.262 to 0.878, overlap: 10 examples do "
        "not decide, so the average over clients does." in words
    )


def test_one_client_s_many_examples_do(told, tmp_path):
    size = [10, 400, 10, 10]
    a = told(tmp_path / "a", [1.0, 0.5, 1.0, 1.0], test=size)
    b = told(tmp_path / "b", [0.6, 0.9, 0.6, 0.6], test=size, personalizer="local")
    run, why, words = said([a, b], 1)
    assert (run, why) == ("b", "own")
    assert words[0] == (
        "Use “b” for client 1: on its 400 test examples it has 0.900 (95 % interval "
        "0.866 to 0.928). “a”, which is first on average over clients, has 0.500 "
        "(0.450 to 0.550). The two intervals do not overlap."
    )
    assert said([a, b], 0)[:2] == ("a", "average")


def test_sure_only_where_interval_and_test_agree(told, tmp_path):
    better = np.linspace(0.6, 0.9, 20)
    a = told(tmp_path / "a", better, shared=better)
    b = told(tmp_path / "b", better - 0.1, shared=better, personalizer="local")
    _, _, words = said([b, a], 0)
    assert words[1] == (  # a is its shared model
        "On test data “a” has 0.000 more accuracy than the shared model, on average "
        "over 20 clients: it is better for 0, worse for 0 and equal for 20. Two tests "
        "agree that this may be chance: the 95 % interval (Student) of the "
        "difference, +0.000 to +0.000, contains 0, and Wilcoxon's signed-rank test "
        "gives p = 1.000, not below 0.05."
    )
    c = told(tmp_path / "c", better, shared=better - 0.2)
    d = told(tmp_path / "d", better - 0.1, shared=better - 0.2, personalizer="local")
    _, _, words = said([c, d], 0)
    assert words[1] == (
        "On test data “c” has 0.100 more accuracy than “d”, on average over 20 "
        "clients: it is better for 20, worse for 0 and equal for 0. Two tests agree "
        "that it is ahead: the 95 % interval (Student) of the difference, +0.100 to "
        "+0.100, excludes 0, and Wilcoxon's signed-rank test gives p < 0.001, below "
        "0.05."
    )


def test_where_two_tests_disagree_both_are_named(told, tmp_path):
    """As in the quickstart: 5 of 40 are better, none is worse; then the other way."""
    low = np.full(40, 0.1)
    base = np.full(40, 0.5)
    more = base + np.where(np.arange(40) < 5, 0.14, 0)
    a = told(tmp_path / "a", more, shared=low)
    b = told(tmp_path / "b", base, shared=low, personalizer="local")
    words = said([a, b], 7)[2]
    assert words[1] == (
        "On test data “a” has 0.018 more accuracy than “b”, on average over 40 "
        "clients: it is better for 5, worse for 0 and equal for 35. Two tests disagree "
        "on whether this may be chance: the 95 % interval (Student) of the difference, "
        "+0.003 to +0.032, excludes 0, but Wilcoxon's signed-rank test gives p = "
        "0.062, not below 0.05. The question stays open."
    )
    far = np.full(40, 0.01)
    far[0] = -0.3  # one client loses much, 39 win little
    c = told(tmp_path / "c", base + far, shared=low)
    d = told(tmp_path / "d", base, shared=low, personalizer="local")
    words = said([c, d], 7)[2]
    assert "better for 39, worse for 1 and equal for 0. Two tests disagree" in words[1]
    assert "contains 0, but Wilcoxon's signed-rank test gives p < 0.001" in words[1]


def test_one_client_tells_nothing_of_others(told, tmp_path):
    a = told(tmp_path / "a", [0.9], shared=[0.5])
    assert said([a], 0)[2][1] == (
        "Clients with test results of both “a” and the shared model: 1, too few for a "
        "95 % interval."
    )


def test_a_malicious_client_gets_no_advice(told, tmp_path):
    a = told(tmp_path / "a", [0.8, 0.9], hostile=[True, False], corruption="auto")
    assert said([a], 0) == (
        "",
        "hostile",
        ["Client 0 is malicious in this experiment. No model is suggested for it."],
    )


def test_a_client_without_test_data(told, tmp_path):
    a = told(tmp_path / "a", [0.8, np.nan], shared=[0.5, np.nan], test=[10, 0])
    run, _, words = said([a], 1)
    assert run == "a" and "Client 1 has no test result of its own." in words


def test_the_shared_model_where_it_is_first(told, tmp_path):
    a = told(tmp_path / "a", [0.5, 0.5], shared=[0.9, 0.9])
    run, _, words = said([a], 1)
    assert run == "the shared model"
    assert words[-2:] == [
        f"To predict with it: troth.load('{a}').shared(1)",
        "This is a torch module. It takes inputs of shape [examples, 1, 8, 8] in the "
        "units of the training data.",
    ]


def test_a_table_is_predicted_from_a_table(told, tmp_path):
    a = told(tmp_path / "a", [0.9, 0.9], personalizer="local", shared=[0.5, 0.5])
    text = (a / "experiment.toml").read_text()
    (a / "experiment.toml").write_text(text.replace('"digits"', '"csv"'))
    words = said([a], 1)[2]
    assert words[-2].endswith(" --client 1 --data FILE.csv")
    assert words[-1].startswith("FILE.csv is your table, with the columns")


def test_any_name_can_stand_in_a_sentence(told, tmp_path):
    name = "personalizer=none"  # is read as: no personalizer
    a = told(tmp_path / name, [0.9, 0.9], personalizer="none")
    b = told(tmp_path / "b and c", [0.5, 0.4], shared=[0.9, 0.9])
    words = said([a, b], 0)[2]
    assert words[0].startswith("Use “no personalizer” for client 0: ")
    assert "Next comes “b and c” with" in words[0]


def test_a_shared_model_counts_once(told, tmp_path):
    a = told(tmp_path / "a", [0.9, 0.9], shared=[0.5, 0.5])
    b = told(tmp_path / "b", [0.5, 0.5], personalizer="none")
    _, _, words = said([a, b], 0)
    assert "of 2 models it" in words[0] and "Next comes “b” with 0.500" in words[0]


def with_valid(path, own, shared):
    """The run, with means on validation data."""
    summary = json.loads((path / "summary.json").read_text())
    kinds = {"personal": own, "shared": shared}
    summary["valid"] = {k: {"accuracy_mean": v} for k, v in kinds.items()}
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_validation_data_choose_where_there_are_any(told, tmp_path):
    """Test data would say a; they say so, and change nothing."""
    better = np.linspace(0.6, 0.9, 20)
    low = better - 0.3
    a = told(tmp_path / "a", better, shared=low)
    b = told(tmp_path / "b", better - 0.1, shared=low, personalizer="local")
    assert said([a, b], 3)[0] == "a"
    run, _, words = said([with_valid(a, 0.7, 0.4), with_valid(b, 0.8, 0.4)], 3)
    assert run == "b"
    assert words[0] == (
        "Use “b” for client 3: of 3 models it has the highest mean accuracy on the "
        "validation data of 20 benign clients, 0.800. Next comes “a” with 0.700."
    )
    assert words[1] == (
        "On test data “b” has 0.100 less accuracy than “a”, on average over 20 "
        "clients: it is better for 0, worse for 20 and equal for 0. Two tests agree "
        "that it is behind: the 95 % interval (Student) of the difference, −0.100 to "
        "−0.100, excludes 0, and Wilcoxon's signed-rank test gives p < 0.001, below "
        "0.05. Models are not chosen by test data."
    )
