from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from troth import config, display
from troth.display import Watcher
from troth.runs import Progress


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("personalizer=ditto+lam=0.1", "ditto,lam=0.1"),
        ("personalizer=none,seed=2", "no personalizer,seed=2"),
        ("attack=none,aggregator=median", "no attack,median"),
        ("lam=0.1", "lam=0.1"),
        ("recipe=none", "recipe=none"),
        ("many", "many"),
        ("", ""),
    ],
)
def test_short(label: str, words: str) -> None:
    assert display.short(label) == words


def test_difference() -> None:
    assert display.difference("lam=0.1", "lam=1.0") == "lam=1.0 − lam=0.1"
    a, b = "personalizer=local,seed=0", "personalizer=ditto+lam=1,seed=0"
    assert display.difference(a, b) == "ditto,lam=1 − local (seed=0)"


@pytest.mark.parametrize(
    ("value", "head", "words"),
    [
        (0.93449, "accuracy", "0.934"),
        (1.0, "accuracy", "1.000"),
        (12345.678, "error", "1.235e+04"),
        (0.00123456, "error", "0.001235"),
        (None, "accuracy", "–"),
        (math.nan, "error", "–"),
    ],
)
def test_number(value: float | None, head: str, words: str) -> None:
    assert display.number(value, head) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.012, "+0.012"), (-0.003, "−0.003"), (0, "+0.000"), (None, "–")],
)
def test_signed(value: float | None, words: str) -> None:
    assert display.signed(value, "accuracy") == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.1, "1 s"),
        (59.5, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.5, "1 h 0 min"),
        (7800, "2 h 10 min"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert display.duration(seconds) == words


def evaluated(personal: float, shared: float) -> dict[str, Any]:
    found = {"personal": personal, "shared": shared}
    return {kind: {"accuracy_mean": mean} for kind, mean in found.items()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that the test moves."""
    now = SimpleNamespace(seconds=100.0)
    fake = SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr(display, "time", fake)
    return now


def test_lines(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    with Watcher("tiny", "hello") as watch:
        assert capsys.readouterr().err == ""  # nothing is said before a first round
        for done in range(1, 41):
            found = evaluated(done / 100, 0.5) if done % 20 == 0 else None
            watch(Progress("", done, 40, found))
            clock.seconds += 0.5
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "hello",
        "tiny: round 1/40",
        "tiny: round 11/40, 2.0 rounds/s, 15 s left",
        "tiny: round 20/40, 2.0 rounds/s, 10 s left, personal 0.200 shared 0.500",
        "tiny: round 30/40, 2.0 rounds/s, 5 s left, personal 0.200 shared 0.500",
        "tiny: round 40/40, 20 s, personal 0.400 shared 0.500",
    ]
    assert watch.last == Progress("", 40, 40, evaluated(0.4, 0.5))


@pytest.mark.parametrize(
    ("step", "words"),
    [(0.01, "100 rounds/s, 1 s left"), (4, "4.0 s a round, "), (40, "40 s a round, ")],
)
def test_speeds_from_fast_to_slow(
    clock: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    step: float,
    words: str,
) -> None:
    watch = Watcher("", "")
    watch(Progress("a", 1, 1050, None))
    clock.seconds += 1000 * step
    watch(Progress("a", 1001, 1050, None))
    assert words in capsys.readouterr().err


def test_a_slow_start_is_forgotten(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watcher("", "")
    for done in range(1, 501):
        watch(Progress("a", done, 1000, None))
        clock.seconds += 100 if done == 1 else 0.1
    assert capsys.readouterr().err.splitlines()[-1].endswith(" 10 rounds/s, 54 s left")


def test_every_run_of_a_grid_starts_its_own_count(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watcher("tiny", "hello")
    for label in ("seed=0", "seed=1", "seed=1"):  # the last: the same name again
        for done in (1, 2):
            watch(Progress(label, done, 2, None))
            clock.seconds += 3
    said = capsys.readouterr().err.splitlines()
    assert said.count("hello") == 1
    assert said.count("seed=1: round 2/2, 3 s") == 2


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with Watcher("tiny", "hello", quiet=True) as watch:
        watch(Progress("", 1, 1, evaluated(1, 1)))
    assert watch.last is not None and capsys.readouterr().err == ""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 100 columns, as a text."""
    screen = io.StringIO()

    def console(stderr: bool = True) -> Console:
        return Console(file=screen, force_terminal=True, width=100, markup=False)

    monkeypatch.setattr(display, "console", console)
    return screen


def plain(screen: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


def test_bars(clock: SimpleNamespace, terminal: io.StringIO) -> None:
    with Watcher("tiny", "hello") as watch:
        for k in range(10):
            for done in (1, 30, 40):
                watch(Progress(f"seed={k}", done, 40, evaluated(0.25, 0.5)))
                clock.seconds += 1
    text = plain(terminal)
    assert "preparing" in text and text.count("hello") == 1
    last = text.splitlines()[-8:]  # older ones have made room
    assert [line.split()[0] for line in last] == [f"seed={k}" for k in range(2, 10)]
    assert all("40/40 2 s personal 0.250 shared 0.500" in line for line in last)
    assert "working" not in last


def test_bars_leave_no_trace_of_what_was_refused(terminal: io.StringIO) -> None:
    with pytest.raises(ValueError), Watcher("tiny", "hello"):
        raise ValueError
    text = terminal.getvalue()
    assert "preparing" in text and "hello" not in text
    assert text.endswith("\r\x1b[2K\x1b[?25h\r") and "\n" not in text


BENIGN = [False, False, True, False]


def run(
    own: list[float], shared: float = 0.5, head: str = "accuracy", **sections: Any
) -> Any:
    """A finished run, as far as a table looks at it."""
    experiment = config.from_dict({"personalizer": "local", **sections})
    experiment.resolved["fingerprint"] = config.fingerprint(experiment)
    benign = np.array(own)[~np.array(BENIGN)]
    numbers = {f"{head}_{m}": float(benign.mean()) for m in ("mean", "std", "weighted")}
    numbers[f"{head}_worst10"] = float(benign.min())
    common = {f"{head}_mean": shared, f"{head}_worst10": shared / 2}
    return SimpleNamespace(
        path=Path("out") / "run",
        experiment=experiment,
        summary={"personal": numbers, "shared": common, "clients": 4, "seconds": 1.25},
        clients={head: np.array(own), "malicious": np.array(BENIGN)},
    )


def printed(table: Any) -> str:
    screen = io.StringIO()
    Console(file=screen, width=200, markup=False).print(table)
    return screen.getvalue()


def test_results() -> None:
    text = printed(
        display.results([run([0.25, 0.5, 1.0, 0.75])], ["personalizer=local"])
    )
    assert "Accuracy of the clients' own models" in text
    assert "over the 3 benign of 4 clients" in text
    (row,) = (line for line in text.splitlines() if line.startswith("local"))
    assert row.split() == ["local", "0.500", "0.500", "0.250", "0.500", "0.500", "1.2"]


def test_results_of_a_regression() -> None:
    text = printed(display.results([run([4, 5, 0, 6], head="error")], ["a"]))
    assert text.strip().startswith("Error of") and " 5 " in text


def test_compare_over_seeds() -> None:
    found = [run([v] * 4, seed=i) for i, v in enumerate((0.25, 0.5, 0.75))]
    labels = [f"lam=1,seed={i}" for i in range(3)]
    (group,) = display.compare(found, labels)
    assert group["kind"] == "seeds" and group["label"] == "lam=1"
    numbers = group["numbers"]["personal.accuracy_mean"]
    assert numbers["mean"] == 0.5
    assert numbers["half_width"] == pytest.approx(4.30265273 * 0.25 / math.sqrt(3))
    text = printed(display.seeds([group]))
    assert "0.500 ± 0.621" in text and "lam=1" in text
    assert json.loads(json.dumps(group)) == group


def test_compare_client_by_client() -> None:
    first = run([0.25, 0.5, 0.0, 0.75])
    second = run([0.5, 0.5, 1.0, 0.5], personalizer={"name": "ditto", "lam": 0.5})
    labels = ["personalizer=local", "personalizer=ditto+lam=0.5"]
    (pair,) = display.compare([first, second], labels)
    assert (pair["better"], pair["worse"], pair["equal"], pair["n"]) == (1, 1, 1, 3)
    assert pair["setting"] == "personalizer.name"
    assert display.paired(pair) == (
        "ditto,lam=0.5 − local: +0.000 [−0.621, +0.621], "
        "better for 1, worse for 1, equal 1, p = 1.000"
    )


def test_lower_errors_are_better() -> None:
    first = run([4, 5, 0, 6], head="error")
    second = run([3, 4, 9, 5], head="error", aggregator="median")
    (pair,) = display.compare([first, second], ["a", "b"])
    assert (pair["better"], pair["worse"]) == (3, 0) and pair["mean_difference"] == -1


def test_other_data_are_other_clients() -> None:
    one = run([0.25] * 4, partition={"name": "iid", "clients": 4})
    two = run([0.5] * 4, partition={"name": "iid", "clients": 5})
    engine = run(
        [0.25] * 4, engine={"chunk": 3}, partition={"name": "iid", "clients": 4}
    )
    assert display.compare([one, two], ["a", "b"]) == []
    assert display.compare([one, engine], ["a", "b"]) == []


def test_small_chances_are_not_zero() -> None:
    pair = dict.fromkeys(("mean_difference", "low", "high"), 0.5)
    pair |= {"p_value": 1e-9, "better": 9, "worse": 0, "equal": 0}
    line = display.paired({**pair, "label": "a − b", "metric": "accuracy"})
    assert line.endswith("p < 0.001")


def test_words_follow_the_numbers() -> None:
    none = run([0.25] * 4, shared=0.25, personalizer="none")
    local, ditto = run([0.75] * 4), run([0.125] * 4, personalizer="ditto")
    text = display.words([none, local, ditto], ["x", "local", "ditto"])
    assert text == (
        "On average over 3 benign clients the accuracy of the shared model is 0.250, "
        "and 0.125 for the worst tenth. With models of their own, local has 0.750: "
        "0.500 above the shared model; ditto has 0.125: 0.125 below the shared model, "
        "0.625 below local."
    )
    same = display.words([run([0.5] * 4), run([0.5] * 4)], ["a", "b"])
    assert "a has 0.500: level with the shared model; b has 0.500: level" in same
    assert display.words([none], ["x"]).endswith("worst tenth.")


def test_words_without_numbers() -> None:
    lost = run([0.5] * 4)
    lost.summary["personal"]["accuracy_mean"] = None  # as JSON has NaN
    assert "a has –: beside 0.500 of the shared model" in display.words([lost], ["a"])


def test_many_pairs_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    found = [run([0.5, k / 40, 0, 1], train={"lr": k / 40}) for k in range(1, 31)]
    labels = [f"lr={k / 40}" for k in range(1, 31)]
    compared = display.compare(found, labels)
    assert len(compared) == 29
    display.outcome(found, labels, compared, in_words=False)
    said = capsys.readouterr().err
    assert said.count("better for") == 20 and "… and 9 more" in said


def test_brackets_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    display.say("[bold]a[/bold] :smile: " + "long " * 100)
    said = capsys.readouterr().err
    assert said.startswith("[bold]a[/bold] :smile: ") and said.count("\n") == 1
