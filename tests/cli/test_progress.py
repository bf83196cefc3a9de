import io
import re
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import troth
from troth.cli import progress
from troth.cli.progress import Counter, Watcher
from troth.runs.train import Progress, State


@pytest.mark.parametrize(
    ("words", "function", "given"),
    [
        ("1 s", progress.duration, [0.1]),
        ("1 min 0 s", progress.duration, [59.5]),
        ("3 min 20 s", progress.duration, [200]),
        ("2 h 10 min", progress.duration, [7800]),
        ("3/20", progress.amount, [3, 20]),
        ("", progress.amount, [0, 0]),
        ("4.5 of 4.5 kB", progress.amount, [4542, 4542]),
        ("3.1 of 9.9 MB", progress.amount, [3_100_000, 9_912_422]),
        ("3.1 MB", progress.amount, [3_100_000, 0]),
    ],
)
def test_durations_and_amounts(words, function, given):
    assert function(*given) == words


Piece = namedtuple("Piece", "done total made used what")


def evaluated(personal, shared):
    return {
        "personal": {"accuracy_mean": personal},
        "shared": {"accuracy_mean": shared},
    }


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = SimpleNamespace(seconds=100.0)
    fake = SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr(progress, "time", fake)
    return now


def test_lines(clock, capsys):
    with Watcher("tiny", "hello") as watch:
        assert capsys.readouterr().err == ""  # nothing is said before a first round
        for done in range(1, 41):
            found = evaluated(done / 100, 0.5) if done % 20 == 0 else None
            watch(Progress("", done, 40, found))
            clock.seconds += 0.5
    assert capsys.readouterr().err.splitlines() == [
        "hello",
        "tiny: round 1/40",
        "tiny: round 11/40, 2.0 rounds/s, 15 s left",
        "tiny: round 20/40, 2.0 rounds/s, 10 s left, personal 0.200 shared 0.500",
        "tiny: round 30/40, 2.0 rounds/s, 5 s left, personal 0.200 shared 0.500",
        "tiny: round 40/40, 20 s, personal 0.400 shared 0.500",
    ]
    assert watch.last == Progress("", 40, 40, evaluated(0.4, 0.5))


def test_speeds_from_fast_to_slow(clock, capsys):
    """And a slow start is forgotten."""
    for step, words in (
        (0.01, "100 rounds/s, 1 s left"),
        (4, "4.0 s per round, "),
        (40, "40 s per round, "),
    ):
        watch = Watcher("", "")
        watch(Progress("a", 1, 1050, None))
        clock.seconds += 1000 * step
        watch(Progress("a", 1001, 1050, None))
        assert words in capsys.readouterr().err
    watch = Watcher("", "")
    for done in range(1, 501):
        watch(Progress("a", done, 1000, None))
        clock.seconds += 100 if done == 1 else 0.1
    assert capsys.readouterr().err.splitlines()[-1].endswith(" 10 rounds/s, 54 s left")


def test_every_run_of_a_grid_starts_its_own_count(clock, capsys):
    watch = Watcher("tiny", "hello")
    for label in ("seed=0", "seed=1", "seed=1"):  # the last: the same name again
        for done in (1, 2):
            watch(Progress(label, done, 2, None))
            clock.seconds += 3
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("hello") == 1 and lines.count("seed=1: round 2/2, 3 s") == 2


def test_a_grid_says_which_run_and_when_all_are_done(clock, capsys):
    with Watcher("tiny", "hello") as watch:
        clock.seconds += 2  # set-up counts
        for run in (1, 2, 3, 4):
            for done in (1, 2):
                clock.seconds += 4
                watch(Progress(f"seed={run}", done, 2, None, None, run, 4))
    assert capsys.readouterr().err.splitlines()[:5] == [
        "hello",
        "run 1 of 4, seed=1: round 1/2, 42 s left in all",
        "run 1 of 4, seed=1: round 2/2, 4 s, 30 s left in all",
        "run 2 of 4, seed=2: round 2/2, 4 s, 18 s left in all",
        "run 3 of 4, seed=3: round 2/2, 4 s, 9 s left in all",
    ]


def test_a_resumed_grid_counts_only_the_runs_of_this_command(clock, capsys):
    with Watcher("tiny", "hello") as watch:
        clock.seconds += 10
        watch(Progress("seed=3", 1, 2, None, None, 3, 4, over=2))
    assert capsys.readouterr().err.endswith("round 1/2, 30 s left in all\n")


def test_work_before_the_first_round_has_a_clock(clock, capsys, monkeypatch):
    """Steps of less than two seconds are not worth a line in a log."""
    with Watcher("tiny", "hello") as watch:
        watch.heard("reading data", 0, 0)
        clock.seconds += 2.5
        watch.heard("measuring plan 1 of 3", 0, 0)
        clock.seconds += 3.4
        watch.heard("measuring plan 2 of 3", 0, 0)
        clock.seconds += 0.5
        watch.heard("compiling", 0, 0)
        clock.seconds += 5
        watch.heard("round 1", 0, 0)
    assert capsys.readouterr().err.splitlines() == [
        "measuring plan 1 of 3, 2 s",
        "measuring plan 2 of 3, 5 s",
        "round 1, 11 s",
    ]


def test_a_terminal_says_what_goes_on_before_the_first_round(terminal, tmp_path):
    """A slow set-up or first round does not only say "preparing"."""
    tree = {"data": "digits", "train": {"rounds": 2}, "personalizer": "finetune"}
    tree |= {"partition": {"name": "iid", "clients": 3}, "engine": {"how": "loop"}}
    words = []
    with Watcher("tiny", "hello") as watch:
        show, watch._wait = watch._wait, lambda word: (words.append(word), show(word))
        troth.run(tree, out=tmp_path / "run", watch=watch)
    first = words.index("")  # the bar of rounds replaces these
    assert words[:first] == [
        "reading data",
        "checking the network",
        "preparing",
        "round 1",
    ]


def test_a_bar_of_unknown_length_has_a_clock(terminal):
    column, task = progress._Pace(), SimpleNamespace(total=None, elapsed=3.9)
    task.fields = {"pace": ""}
    assert column.render(task).plain == "3 s"
    task.fields, task.total = {"pace": "2 rounds/s"}, 9
    assert column.render(task).plain == "2 rounds/s"
    with Watcher("tiny", "hello") as watch:
        watch.heard("measuring plan 2 of 3", 0, 0)
    assert re.search(r"measuring plan 2 of 3 .* 0 s", terminal.getvalue())


def test_quiet(capsys):
    with Watcher("tiny", "hello", quiet=True) as watch:
        watch(Progress("", 0, 9, None, State(Path("rows.bin"), 8)))
        watch(Progress("", 1, 1, evaluated(1, 1)))
        watch.heard("a.gz", 1, 2)
    with Counter("certificates", "Writing to here.", quiet=True) as counter:
        counter.heard("reading data", 0, 0)
        counter(Piece(1, 1, 1, 1, "x"))
    assert watch.last is not None and capsys.readouterr().err == ""


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 100 columns, as a text."""
    screen = io.StringIO()

    def console(stderr=True):
        return Console(file=screen, force_terminal=True, width=100, markup=False)

    monkeypatch.setattr(progress, "console", console)
    return screen


def test_bars(clock, terminal):
    with Watcher("tiny", "hello") as watch:
        for k in range(10):
            for done in (1, 30, 40):
                watch(Progress(f"seed={k}", done, 40, evaluated(0.25, 0.5)))
                clock.seconds += 1
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "preparing" in text and text.count("hello") == 1
    last = text.splitlines()[-8:]  # older ones have made room
    assert [line.split()[0] for line in last] == [f"seed={k}" for k in range(2, 10)]
    assert all("40/40 2 s personal 0.250 shared 0.500" in line for line in last)


def test_bars_leave_no_trace_of_what_was_refused(terminal):
    with pytest.raises(ValueError), Watcher("tiny", "hello"):
        raise ValueError
    text = terminal.getvalue()
    assert "preparing" in text and "hello" not in text
    assert text.endswith("\r\x1b[2K\x1b[?25h\r") and "\n" not in text


def test_lines_of_a_download(clock, capsys):
    """A line when something begins, every five seconds, and when it is done."""
    with Watcher("tiny", "hello") as watch:
        for done in range(1, 13):
            watch.heard("a.gz", done * 10**6, 12 * 10**6)
            clock.seconds += 1
        clock.seconds += 1
        watch.heard("checking a.gz", 0, 0)
        watch.heard("checking a.gz", 0, 0)
        watch.heard("", 0, 0)
    assert capsys.readouterr().err.splitlines() == [
        "a.gz: 1.0 of 12.0 MB",
        "a.gz: 6.0 of 12.0 MB",
        "a.gz: 11.0 of 12.0 MB",
        "a.gz: 12.0 of 12.0 MB",
        "checking a.gz, 13 s",
    ]


def test_a_bar_of_a_download(terminal):
    """And of what is done after the last round."""
    with Watcher("tiny", "hello") as watch:
        watch.heard("a.gz", 6 * 10**6, 12 * 10**6)
        (task,) = watch._bars.tasks
        assert (task.description, task.percentage) == ("a.gz", 50)
        assert task.fields["count"] == "6.0 of 12.0 MB"
        watch.heard("checking a.gz", 0, 0)
        (task,) = watch._bars.tasks
        assert task.total is None and task.description == "checking a.gz"
        watch.heard("", 0, 0)
        assert [task.description for task in watch._bars.tasks] == ["preparing"]
        watch(Progress("", 3, 3, None))
        watch.heard("personalizing", 4, 12)
        _, task = watch._bars.tasks
        assert (task.description, task.completed) == ("personalizing", 4)
        watch.heard("", 0, 0)
        assert watch._bars.tasks[1].description == "working"


def test_state_on_disk_is_said_before_the_first_round(capsys):
    state = State(Path("/a/state/rows.bin"), 8_883_120_000)
    with Watcher("tiny", "hello") as watch:
        watch(Progress("", 0, 9, None, state))
        watch(Progress("", 1, 9, None))
    assert capsys.readouterr().err.splitlines() == [
        "Client state is stored on disk: up to 8.9 GB in /a/state/rows.bin",
        "hello",
        "tiny: round 1/9",
    ]


def test_a_counter_says_how_far_and_how_fast(capsys):
    with Counter("certificates", "Writing to here.") as counter:
        counter.heard("reading data", 0, 0)  # on a terminal only, as it is short
        counter.heard("a.gz", 1, 2)
        for done in (3, 4, 5):
            counter(Piece(done, 5, done - 2, 1000 * done, "shared, client 0"))
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["a.gz: 1/2", "Writing to here."]
    assert re.fullmatch(
        r"3/5 certificates, [\d,]+ samples/s, \d+ s left, shared, client 0", said[2]
    )
    assert said[-1].startswith("5/5 certificates") and "0 s left" in said[-1]
    assert len(said) == 4 and counter.last.done == 5


NOTEBOOK = """
import tempfile, troth
place = tempfile.mkdtemp() + "/run"
tree = {"partition": {"name": "iid", "clients": 4}, "train": {"rounds": 3}}
tree |= {"grid": {"seed": [0, 1]}, "engine": {"how": "vmap", "chunk": 4}}
runs = troth.run(tree, out=place, watch=troth.ProgressBar())
"""


@pytest.mark.slow("starts a notebook's kernel")
def test_bars_in_a_notebook():
    """There is one output, and it is replaced: no widget is needed."""
    nbclient, nbformat = map(pytest.importorskip, ("nbclient", "nbformat"))
    cell = nbformat.v4.new_code_cell(NOTEBOOK)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=200).execute()
    (output,) = cell.outputs
    assert output.output_type == "display_data"
    lines = output.data["text/plain"].strip().splitlines()
    for line, words in zip(
        lines, ("run 1 of 2, seed=0", "run 2 of 2, seed=1"), strict=True
    ):
        assert line.split("━")[0].strip().startswith(words)
    assert all("━" in line and "3/3" in line and "personal" in line for line in lines)
    assert (
        output.data["text/html"].startswith("<pre")
        and "3/3" in output.data["text/html"]
    )


def test_a_run_enters_and_leaves_a_progress_bar(tmp_path, capsys):
    bar = troth.ProgressBar("mine")
    tree = {"partition": {"name": "iid", "clients": 4}, "train": {"rounds": 2}}
    troth.run(tree, settings=["engine.how=loop"], out=tmp_path / "run", watch=bar)
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("mine: round 2/2") and "" not in said
