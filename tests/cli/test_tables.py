import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from rich.console import Console

from troth.cli import tables
from troth.config import reader
from troth.runs import compare

MALICIOUS = [False, False, True, False]


def run(own, shared=0.5, head="accuracy", **sections):
    """A finished run, as far as a table looks at it."""
    experiment = reader.from_dict({"personalizer": "local", **sections})
    experiment.resolved["fingerprint"] = reader.fingerprint(experiment)
    benign = np.array(own)[~np.array(MALICIOUS)]
    numbers = {f"{head}_{m}": float(benign.mean()) for m in ("mean", "std", "weighted")}
    numbers[f"{head}_worst10"] = float(benign.min())
    common = {f"{head}_mean": shared, f"{head}_worst10": shared / 2}
    return SimpleNamespace(
        path=Path("out") / "run",
        experiment=experiment,
        summary={"personal": numbers, "shared": common, "clients": 4, "seconds": 1.25},
        clients={head: np.array(own), "malicious": np.array(MALICIOUS)},
    )


def printed(table):
    screen = io.StringIO()
    Console(file=screen, width=200, markup=False).print(table)
    return screen.getvalue()


def row(text, name):
    (line,) = (line for line in text.splitlines() if line.startswith(name))
    return line.split()


def test_results():
    found = run([0.25, 0.5, 1.0, 0.75])
    text = printed(tables.results([found], ["personalizer=local"]))
    assert "Accuracy of the clients' own models" in text
    assert "over the 3 benign of 4 clients" in text
    numbers = ["0.500", "0.500", "0.250", "0.500", "0.500", "1.2"]
    assert row(text, "local") == ["local", *numbers]
    text = printed(tables.results([run([4, 5, 0, 6], head="error")], ["a"]))
    assert text.strip().startswith("Error of") and " 5 " in text
    text = printed(tables.results([found, run([4, 5, 0, 6], head="error")], ["a", "b"]))
    assert text.strip().startswith("Accuracy or error of")


def test_columns_that_only_some_runs_have():
    """What an attack is after, and further test sets; no client has the second."""
    plain, aimed, tested = (run([0.25, 0.5, 1.0, 0.75]) for _ in range(3))
    aimed.summary["personal"]["attack_success_mean"] = 0.125
    aimed.summary["shared"]["attack_success_mean"] = None
    own, shared = {"accuracy_mean": 0.125}, {"accuracy_mean": None}
    tested.summary["tests"] = {"conflicting": {"personal": own, "shared": shared}}
    for more, *heads in (
        (aimed, "attack success", "on shared"),
        (tested, "conflicting mean", "shared conflicting"),
    ):
        text = printed(tables.results([plain, more], ["plain", "more"]))
        assert all(head in text for head in heads)
        assert row(text, "more")[-3:] == ["0.125", "–", "1.2"]
        assert row(text, "plain")[-3:] == ["–", "–", "1.2"]
        assert heads[0] not in printed(tables.results([plain], ["plain"]))


def test_seeds_on_further_test_sets():
    kinds = {"personal": ("mean", "std", "worst10", "weighted"), "shared": ("mean",)}
    interval = {"mean": 0.5, "half_width": 0.25}
    numbers = {f"{k}.accuracy_{m}": interval for k, ms in kinds.items() for m in ms}
    own = {"mean": 0.75, "half_width": 0.125}
    further = {"tests.conflicting.personal.accuracy_mean": own}
    groups = [
        {"label": name, "seeds": [0, 1], "metric": "accuracy", "numbers": found}
        for name, found in (("hard", numbers | further), ("plain", numbers))
    ]
    text = printed(tables.seeds(groups))
    assert row(text, "hard")[-6:] == ["0.750", "±", "0.125", "–", "±", "–"]
    assert row(text, "plain")[-6:] == ["–", "±", "–", "–", "±", "–"]
    assert "conflicting" not in printed(tables.seeds(groups[1:]))


def test_clients_that_were_not_evaluated_are_not_called_malicious():
    sample = run([0.25, np.nan, np.nan, 0.75])
    text = printed(tables.results([sample], ["a"]))
    assert "over 2 of the 3 benign of 4 clients" in text
    sample.clients["malicious"] = np.zeros(4, bool)
    text = printed(tables.results([sample], ["a"]))
    assert "over 2 of 4 clients" in text and "benign" not in text


def test_pairs(capsys):
    """Small chances are not zero, and of many pairs some are printed."""
    found = [run([0.5, k / 40, 0, 1], train={"lr": k / 40}) for k in range(1, 31)]
    labels = [f"lr={k / 40}" for k in range(1, 31)]
    compared = compare.compare(found, labels)
    assert tables.paired(compared[0] | {"p_holm": 1e-9}) == (
        "lr=0.05 − lr=0.025: +0.008 [−0.028, +0.044], "
        "better for 1, worse for 0, equal 2, p < 0.001"
    )
    tables.outcome(found, labels, compared, in_words=False)
    said = capsys.readouterr().out
    assert len(compared) == 29
    assert "Client by client, one seed: " in said and "29 comparisons (Holm)" in said
    assert "another seed of the same method may differ as much" in said
    assert said.count("better for") == 20 and "… and 9 more" in said


def test_words_follow_the_numbers():
    none = run([0.25] * 4, shared=0.25, personalizer="none")
    local, ditto = run([0.75] * 4), run([0.125] * 4, personalizer="ditto")
    text = tables.words([none, local, ditto], ["x", "local", "ditto"])
    assert text == (
        "The shared model has a mean accuracy of 0.250 over 3 benign clients. For the "
        "worst tenth of them it is 0.125. Personal models: local has 0.750: 0.500 "
        "above the shared model; ditto has 0.125: 0.125 below the shared model, 0.625 "
        "below local."
    )
    same = tables.words([run([0.5] * 4), run([0.5] * 4)], ["a", "b"])
    assert "a has 0.500: the same as the shared model; b has 0.500: the" in same
    assert tables.words([none], ["x"]).endswith("it is 0.125.")
    local.summary["personal"]["accuracy_mean"] = None  # as JSON has NaN
    assert "a has –: the shared model has 0.500" in tables.words([local], ["a"])


def test_brackets_are_not_markup(capsys):
    tables.say("[bold]a[/bold] :smile: " + "long " * 100)
    said = capsys.readouterr().err
    assert said.startswith("[bold]a[/bold] :smile: ") and said.count("\n") == 1


def test_the_width_of_a_table():
    made = tables.table("a long title " * 9, ["", "ab"], [["name", "1"], ["x", ""]])
    assert tables.width(made) == len("name") + 3 + len("ab")
    assert tables.width(tables.table("", ["a"], [])) > 0


def test_names_that_are_never_broken_and_lines_below_others():
    names = ["a-long-name-of-a-run", "words and words and words"]
    for whole, found in ((0, False), (1, True)):
        text = io.StringIO()
        made = tables.table("", ["", ""], [names], texts=2, whole=whole)
        Console(file=text, width=30).print(made)
        assert (names[0] in text.getvalue()) == found
    text = io.StringIO()
    Console(file=text, width=20).print(tables.indented("some words that are many"))
    assert [line[:2] for line in text.getvalue().splitlines()] == ["  ", "  "]


def test_a_grid_of_many_runs_is_a_pivot(capsys):
    """32 runs: the pivot in place of 32 lines, and the best by validation."""
    runs, labels = [], []
    for i in range(8):
        for attack in ("none", "alie"):
            for seed in (0, 1):
                lr, bad = (i + 1) / 10, {"adversary": {"fraction": 0.25}}
                more = {} if attack == "none" else bad
                one = run(
                    [i / 10] * 4, train={"lr": lr}, attack=attack, seed=seed, **more
                )
                one.summary["valid"] = {"personal": {"accuracy_mean": 1 - i / 10}}
                runs.append(one)
                labels.append(f"lr={lr},attack={attack},seed={seed}")
    tables.outcome(runs, labels, compare.compare(runs, labels), in_words=False)
    said = capsys.readouterr().out
    assert "seed=0" not in said
    assert row(said, "0.8")[:4] == ["0.8", "0.700", "±", "0.000"]
    assert "Best by validation under alie: lr=0.1 (accuracy 1.000 ± 0.000 on" in said
    assert "Two seeds are too few" in said
    few = printed(tables.results(runs[:2], labels[:2]))
    assert "valid mean" in few
    assert row(few, "lr=0.1,no attack,seed=0")[2:4] == ["0.000", "1.000"]


def test_further_scores():
    """At most six columns, of the scores that the experiment names."""
    found = run([0.25, 0.5, 1.0, 0.75], evaluate={"scores": ["f1", "recall"]})
    more = {"f1": 0.125, **{f"recall_{k}": k / 10 for k in range(10)}}
    found.summary["personal"] |= {f"{k}_mean": v for k, v in more.items()}
    text = printed(tables.results([found], ["a"]))
    assert "f1 mean" in text and "recall_4 mean" in text
    assert "recall_5" not in text
    assert row(text, "a")[6:9] == ["0.125", "0.000", "0.100"]


def test_names_of_runs_are_not_broken(monkeypatch):
    """On 80 columns they are listed below; common parts are left out."""
    names = [
        f"personalizer={own},aggregator={rule},attack=model_replacement,seed=0"
        for own in ("ditto+lam=0.1", "none")
        for rule in ("centered_clipping", "median")
    ]
    monkeypatch.setattr(tables, "console", lambda **_: Console(width=80))
    short = tables._apart(names)
    runs = [run([0.25, 0.5, 1.0, 0.75]) for _ in names]
    screen = io.StringIO()
    Console(file=screen, width=80).print(tables.results(runs, short))
    text = screen.getvalue()
    assert "\n  1: ditto,lam=0.1,centered_clipping\n" in text
    assert "\n  4: no personalizer,median\n" in text
    assert "seed=0" not in text and "model_replacement" not in text
    assert row(text, "4")[:2] == ["4", "0.500"] and "1.2" in row(text, "4")
    assert max(map(len, text.splitlines())) <= 80
    assert tables._apart(["a", "a"]) == ["a", "a"] and tables._apart(["a,b"]) == ["a,b"]
