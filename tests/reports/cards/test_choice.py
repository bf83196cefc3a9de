"""Which model is suggested to a client, by worked examples."""

import json
import shlex

import numpy as np

import troth
from troth.reports import _front, cards
from troth.reports.cards import _reading
from troth.runs import inspect


def choice(paths, client):
    """The run and rule that were chosen, and the sentences: rule → values."""
    (deck,) = cards.decks(inspect.opened(paths))
    choice = deck.choices[client]
    run = choice.model.label if choice.model else ""
    return run, choice.why, {rule: values for rule, *values in choice.sentences}


def test_the_first_on_average(told, tmp_path):
    shared = [0.5] * 4
    a = told(tmp_path / "a", [0.8, 0.9, 1.0, 0.9], shared=shared)
    b = told(tmp_path / "b", [0.7, 0.9, 0.9, 0.8], shared=shared, personalizer="local")
    run, why, lines = choice([a, b], 2)
    assert (run, why) == ("a", "average")
    average = "“a” 2 3 highest accuracy test 4 0.900 “b” 0.825"
    assert " ".join(lines["choice.average"]) == average
    (two_tests,) = [v for rule, v in lines.items() if len(v) == 11]
    assert two_tests[:8] == ["“a”", "“b”", "0.075", "more accuracy", *"4301"]
    assert lines["choice.agrees"] == ["10", "2", "1.000", "more"]
    asks = f"troth predict {a} --client 2 --data FILE.npz"
    assert [*lines.items()][-2:] == [
        ("choice.command", [asks]),
        ("choice.npz", ["1, 8, 8"]),
    ]


def test_a_tie_names_those_that_are_equal(told, tmp_path):
    a = told(tmp_path / "a", [0.8, 0.9, 0.9, 0.9], shared=[0.5, 0.9, 0.4, 0.4])
    b = told(tmp_path / "b", [0.7, 0.9, 0.9, 0.8], shared=[0.5, 0.9, 0.4, 0.4])
    equal = ["10", "2", "0.900", "“b”", "more"]
    assert choice([a, b], 2)[2]["choice.equal"] == equal
    assert "“b” and the shared model" in choice([a, b], 1)[2]["choice.equal"]
    assert "choice.agrees" in choice([a, b], 0)[2]


def test_models_with_equal_means_are_said_to_be_equal(told, tmp_path):
    """Exactly equal, and equal to the printed digits only."""
    for i, (more, why) in enumerate(
        (
            (0.0, "is the first of these in the list of models"),
            (1e-5, "has the highest mean before rounding"),
        )
    ):
        low = [0.5] * 3
        a = told(tmp_path / f"{i}a", [0.9, 0.8, 0.7], shared=low)
        b = told(tmp_path / f"{i}b", [0.7 + more, 0.8, 0.9], shared=low)
        first, second = ("a", "b") if not more else ("b", "a")
        run, _, lines = choice([a, b], 1)
        assert run == f"{i}{first}" and "choice.average" not in lines
        has = ["1", "test", "3", "accuracy", "0.800", f"“{i}{second}”", "3", "more"]
        assert lines["choice.tie"] == [f"“{i}{first}”", *has, why]
        (deck,) = cards.decks(inspect.opened([a, b]))
        about = "3", "test", "accuracy", f"“{i}{first}”", "0.800", f"“{i}{second}”", why
        assert _front.why(deck)[0] == ("answer.tie", *about)


def test_one_client_s_few_examples_do_not_decide(told, tmp_path):
    a = told(tmp_path / "a", [0.6, 0.9, 1.0, 0.9])
    b = told(tmp_path / "b", [0.8, 0.8, 0.8, 0.8], personalizer="local")
    run, why, lines = choice([a, b], 0)
    assert (run, why) == ("a", "average")
    # Clopper and Pearson: 8 of 10 and 6 of 10
    has = "10 0 “b” 0.800 “a” 0.600 0.444 0.975 0.262 0.878"
    assert " ".join(lines["choice.chance"]) == has


def test_one_client_s_many_examples_do(told, tmp_path):
    size = [10, 400, 10, 10]
    a = told(tmp_path / "a", [1.0, 0.5, 1.0, 1.0], test=size)
    b = told(tmp_path / "b", [0.6, 0.9, 0.6, 0.6], test=size, personalizer="local")
    run, why, lines = choice([a, b], 1)
    assert (run, why) == ("b", "own")
    has = "“b” 1 400 0.900 0.866 0.928 “a” 0.500 0.450 0.550"
    assert " ".join(lines["choice.own"]) == has
    assert choice([a, b], 0)[:2] == ("a", "average")


def test_what_the_interval_over_clients_decides(told, tmp_path):
    """No difference, a clear one, few winners, one loser, and equal differences."""
    better, base = np.linspace(0.6, 0.9, 20), np.full(40, 0.5)
    lower = better - 0.1 - 0.01 * (np.arange(20) % 2)
    few_win = np.where(np.arange(40) < 5, 0.14, 0)  # none loses, as in the quickstart
    one_loses = np.where(np.arange(40) < 1, -0.3, 0.01)
    for i, (own, shared, other, rule, values) in enumerate(
        (
            (better, better, lower, "unsure", ["0.000", 0, 0, 20, "p = 1.000"]),
            (better, 0.4, lower, "sure", ["0.105", 20, 0, 0, "p < 0.001"]),
            (base + few_win, 0.1, base, "sure", ["0.018", 5, 0, 35, "p = 0.023"]),
            (base + one_loses, 0.1, base, "unsure", ["0.002", 39, 1, 0, "p = 0.773"]),
            (base[:3] + 0.1, 0.1, base[:3], "sign", ["0.100", 3, 0, 0, "p = 0.250"]),
        )
    ):
        shared = np.broadcast_to(shared, own.shape)
        a = told(tmp_path / f"{i}a", own, shared=shared)
        b = told(tmp_path / f"{i}b", other, shared=shared, personalizer="local")
        found = choice([b, a], 2)[2][f"choice.{rule}"]
        assert found[0] == f"“{i}a”"
        assert [found[2], *found[5:9]] == [*map(str, values)]


def test_three_clients_that_gain_a_lot_are_ahead(told, tmp_path):
    """Signed ranks of 3 clients have p ≥ 0.25, so that this once stayed open."""
    a = told(tmp_path / "a", [0.88, 0.90, 0.917], shared=[0.0, 0.01, 0.017])
    assert "choice.sure" in choice([a], 0)[2]


def test_one_client_tells_nothing_of_others(told, tmp_path):
    a = told(tmp_path / "a", [0.9], shared=[0.5])
    assert choice([a], 0)[2]["choice.few"] == ["“a”", "the shared model", "1"]


def test_a_malicious_client_gets_no_advice(told, tmp_path):
    a = told(tmp_path / "a", [0.8, 0.9], hostile=[True, False], corruption="auto")
    assert choice([a], 0) == ("", "hostile", {"choice.hostile": ["0"]})


def test_a_client_without_test_data(told, tmp_path):
    a = told(tmp_path / "a", [0.8, np.nan], shared=[0.5, np.nan], test=[10, 0])
    run, _, lines = choice([a], 1)
    assert run == "a" and lines["choice.untested"] == ["1"]


def test_the_shared_model_where_it_is_first(told, tmp_path):
    a = told(tmp_path / "a", [0.5, 0.5], shared=[0.9, 0.9])
    run, _, lines = choice([a], 1)
    assert run == "the shared model"
    assert lines["choice.command"] == [f"troth.load('{a}').shared(1)"]
    assert lines["choice.module"] == ["1, 8, 8"]


def test_a_table_is_predicted_from_a_table(told, tmp_path):
    a = told(tmp_path / "a", [0.9, 0.9], personalizer="local", shared=[0.5, 0.5])
    text = (a / "experiment.toml").read_text()
    facts = '[resolved]\nfeatures = ["age", "sex=f"]'
    (a / "experiment.toml").write_text(text.replace("[resolved]", facts))
    lines = choice([a], 1)[2]
    assert lines["choice.command"][0].endswith(" --client 1 --data FILE.csv")
    assert "choice.table" in lines


def test_a_table_is_audited_without_a_range(told, tmp_path):
    for shape, more in (("[1, 8, 8]", ""), ("[3]", " --bounds none")):
        run = told(tmp_path / shape.strip("[]"), [0.9, 0.9], shared=[0.5, 0.5])
        file = run / "experiment.toml"
        text = file.read_text().replace("shape = [1, 8, 8]", f"shape = {shape}")
        file.write_text(text)
        (deck,) = cards.decks(inspect.opened([run]))
        said = {rule: v for rule, *v in deck.cards[0][1].sentences}
        (asks,) = said["shortcuts.missing"]
        assert asks == f"troth audit {shlex.quote(str(run))} --client 1{more}"


def test_objects_in_memory_need_python(tmp_path):
    """The printed calls are run, with the data in place of DATA."""
    random = np.random.default_rng(0)
    data = {"x": random.normal(size=(80, 3)).astype("float32"), "y": [0, 1] * 40}
    tree = {"partition": {"name": "iid", "clients": 2}, "personalizer": "ditto"}
    how = {"how": "loop", "device": "cpu"}
    tree |= {"train": {"rounds": 1}, "engine": how, "output": {"checkpoint": False}}
    a = tmp_path / "a"
    troth.run(tree, data=data, out=a)
    (deck,) = cards.decks(inspect.opened([a]))
    card, load = deck.cards[0][1], f"troth.load('{a}', data=DATA)"
    said = {rule: v for rule, *v in (*deck.choices[1].sentences, *card.sentences)}
    assert said["shortcuts.missing"] == [
        f"troth.audit({load}, clients='1,', bounds=[])"
    ]
    names = {"troth": troth, "DATA": data, "X": data["x"]}
    assert len(eval(said["shortcuts.missing"][0], names).table["client"]) == 1
    (use,) = said["choice.command"]
    assert use == f"troth.load('{a}').predict(1, X)" and len(eval(use, names)) == 80
    assert said["choice.array"] == ["3"]
    certify = said["certificate.missing"][0]
    assert certify.endswith(
        f"certify({load}, Smoothing(transform='pixel', sigma=0.25), clients='1,')"
    )
    exec(certify.replace("0.25)", "0.25, n=50, n0=5)"), {"DATA": data})
    assert (a / "certificates.csv").exists()
    (local,) = eval(said["gain.local_missing"][0], names)
    assert local.experiment.personalizer.name == "local"
    asks = _reading.resume(deck.runs[0])
    assert asks == f"troth.resume('{a}', data=DATA)" and eval(asks, names)


def test_any_name_can_stand_in_a_sentence(told, tmp_path):
    name = "personalizer=none"  # is read as: no personalizer
    a = told(tmp_path / name, [0.9, 0.9], personalizer="none")
    b = told(tmp_path / "b and c", [0.5, 0.4], shared=[0.9, 0.9])
    average = choice([a, b], 0)[2]["choice.average"]
    assert average[0] == "“no personalizer”" and average[8] == "“b and c”"


def test_a_shared_model_counts_once(told, tmp_path):
    a = told(tmp_path / "a", [0.9, 0.9], shared=[0.5, 0.5])
    b = told(tmp_path / "b", [0.5, 0.5], personalizer="none")
    average = choice([a, b], 0)[2]["choice.average"]
    assert (average[2], *average[8:]) == ("2", "“b”", "0.500")


def with_valid(path, own, shared):
    """The run, with means on validation data."""
    summary = json.loads((path / "summary.json").read_text())
    kinds = {"personal": own, "shared": shared}
    summary["valid"] = {k: {"accuracy_mean": v} for k, v in kinds.items()}
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_validation_data_choose_where_there_are_any(told, tmp_path):
    """Test data would choose a; the sentence says so, and changes nothing."""
    better = np.linspace(0.6, 0.9, 20)
    low = better - 0.3
    a = told(tmp_path / "a", better, shared=low)
    less = better - 0.1 + 0.01 * (-1.0) ** np.arange(20)
    b = told(tmp_path / "b", less, shared=low, personalizer="local")
    assert choice([a, b], 3)[0] == "a"
    run, _, lines = choice([with_valid(a, 0.7, 0.4), with_valid(b, 0.8, 0.4)], 3)
    assert run == "b"
    average = "“b” 3 3 highest accuracy validation 20 0.800 “a” 0.700"
    assert " ".join(lines["choice.average"]) == average
    behind = ["“b”", "“a”", "0.100", "less accuracy", "20", "0", "20", "0"]
    ends = ["p < 0.001", "−0.105", "−0.095"]
    assert lines["choice.behind"] == [*behind, *ends]
