import getpass
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from troth.cli.commands import reproduce
from troth.reproduce import listing, store

SOME = ("--scale", "small", "--seeds", 1, "--device", "cpu", "--cells", "global / A3*")


@pytest.mark.slow("reads all committed results")
def test_the_list_names_all(troth, tmp_path):
    result = troth("reproduce", "--list", "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    found = {one["name"]: one for one in json.loads(result.stdout)["entries"]}
    assert list(found) == list(listing.entries())
    assert found["ditto/table8"]["cells"] == found["ditto/table8"]["run"] == 140
    plain = troth("reproduce", "--list", "ditto/table6", "--out", tmp_path)
    assert plain.exit_code == 0 and "ditto/table6" in plain.stderr
    assert not list(tmp_path.iterdir())


def test_cells_are_trained_and_told(troth, tmp_path):
    out = tmp_path / "out"
    given = (*SOME, "--out", out, "--json")
    shown = troth("reproduce", "ditto/table8", *given, "--show")
    assert shown.exit_code == 0
    assert all(c["seeds"] == 0 for c in json.loads(shown.stdout)["cells"])
    result = troth("reproduce", "ditto/figure3", *given)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [cell["column"] for cell in found["cells"]] == ["A3 10%", "A3 20%", "A3 50%"]
    for cell in found["cells"]:
        assert cell["seeds"] == 1 and 0 <= cell["ours"] <= 1 and cell["theirs"] > 0
        assert cell["verdict"] == "not judged"
    names = {Path(file).name for file in found["files"]}
    suffixes = ("md", "csv", "png", "svg")
    assert names == {f"ditto-figure3-small.{suffix}" for suffix in suffixes}
    table = (out / "ditto-figure3-small.csv").read_text().splitlines()
    assert len(table) == 61  # all cells, whichever were chosen
    again = troth("reproduce", "ditto/table8", *given, "--show")
    same = json.loads(again.stdout)["cells"]
    assert [c["ours"] for c in same] == [c["ours"] for c in found["cells"]]
    assert "Run: 3 of the 3 cells shown" in again.stderr
    packed = troth("reproduce", "--pack", "--out", out, "--json")
    assert json.loads(packed.stdout) == {"packed": 3, "table": str(out / store.TABLE)}
    again = troth("reproduce", "ditto/table8", *given, "--show")
    assert json.loads(again.stdout)["cells"] == same


TABLE, SMALL = "ditto/table8", ("ditto/table8", "--scale", "small")
MANY = "x" * 300


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ditto/tabel8"], "nearest are ditto/table8"),
        (["nothing"], "there is no table or figure 'nothing'"),
        ([TABLE, "--scale", "huge"], "--scale huge must be full or small"),
        ([TABLE, "--seeds", "0"], "'--seeds': 0 is not in the range 1<=x<=100"),
        ([*SMALL, "--cells", "Dito"], "ditto/table8 has no cell 'Dito'"),
        (["ditto/figure1", "--cells", "x"], "leave --cells out"),
        (["ditto/figure7", "--scale", "small"], "has no --scale small"),
        ([*SMALL, "--out", __file__], "cannot be written (File exists); give another"),
        (["--pack", TABLE], "leave TARGET out"),
        (["--cells", "x", "--show"], "leave --cells, --show out"),
        (["--list", "--out", MANY], "cannot be read (File name too long)"),
        ([TABLE, "--show", "--device", "cpu:x"], "device 'cpu:x' does not exist"),
        ([TABLE, "--show", "--cells", "Ditto, λ=1 / A9 20%"], "mean 'Ditto, λ=1 / A"),
    ],
)
def test_refusals(refused, arguments, words):
    assert words in refused("reproduce", *arguments)


def test_what_is_refused_leaves_no_folder(troth, tmp_path, monkeypatch):
    """On a machine without any data."""
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = ("--out", tmp_path / "out")
    for words, *given in (
        ("mytrain.json", "ditto/table6"),
        ("--scale small", "ditto/table6"),
        ("", "fmtl/figure1"),
        ("", *SMALL, "--device", "foo"),
    ):
        result = troth("reproduce", *given, *out)
        assert result.exit_code == 2 and words in result.stderr
    assert list(tmp_path.iterdir()) == []
    shown = troth("reproduce", "ditto/table6", *out, "--show", "--json")
    assert shown.exit_code == 0 and len(json.loads(shown.stdout)["cells"]) == 130


def test_a_file_that_cannot_be_written(troth, tmp_path):
    (tmp_path / "ditto-table8.md").mkdir()
    result = troth("reproduce", "ditto/table8", "--show", "--out", tmp_path)
    assert result.exit_code == 2 and "give another" in result.stderr
    assert len(list(tmp_path.iterdir())) == 1


def test_forms_of_a_letter_do_not_matter_and_scripts_have_seeds(troth, tmp_path):
    cells = ["--cells", "Ditto,\u00a0\U0001d706=1  / clean"]
    show = ("--show", "--json", "--out", tmp_path)
    result = troth("reproduce", "ditto/table8", *cells, *show)
    assert result.exit_code == 0 and len(json.loads(result.stdout)["cells"]) == 1
    result = troth("reproduce", "equivalence/figure1", "--seeds", 2, *show)
    assert result.exit_code == 0 and "--seeds 2 changes nothing" in result.stderr
    labels = {one["label"] for one in json.loads(result.stdout)["results"]}
    assert {"l2, adam", "l2sq, adam"} <= labels


SLOW = """
import sys
from pathlib import Path
from troth.reproduce import listing, scripts
entries = listing.entries()
one = entries["ditto/figure1"]._replace(script=("slow.py", sys.argv.pop(1)), data=())
entries["ditto/figure1"] = one
scripts.experiments = lambda: Path(one.script[1]).parent
from troth.cli.app import main
main()
"""


def ended(command, waits_for, **variables):
    """The one line of a command that is told to end, once something has happened."""
    env, pipe = {**os.environ, **variables}, subprocess.PIPE
    process = subprocess.Popen(command, stderr=pipe, env=env, text=True)
    until = time.monotonic() + 120
    while not waits_for():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143 and "Traceback" not in said
    return said.splitlines()[-1]


@pytest.mark.slow("starts and kills real processes")
def test_a_script_ends_with_the_command(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import os, pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    pid, out = tmp_path / "pid", ("--out", tmp_path / "out")
    command = [sys.executable, "-c", SLOW, pid, "reproduce", "ditto/figure1", *out]
    said = ended(command, lambda: pid.exists() and pid.read_text())
    assert said.startswith("troth: stopped; repeat the command to continue: troth")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.slow("starts and kills real processes")
def test_cells_leave_nothing_behind_when_they_are_ended(tmp_path):
    place, out = tmp_path / "tmp", tmp_path / "out"
    place.mkdir()
    command = [sys.executable, "-m", "troth", "reproduce", "ditto/table8", "--apart"]
    told = ["--scale", "small", "--device", "cpu", "--out", str(out)]
    runs = "troth-cells-*/*/rounds.jsonl"
    said = ended([*command, *told], lambda: [*place.glob(runs)], TMPDIR=str(place))
    assert f"troth: stopped; finished cells are kept in {out}; repeat" in said
    left = [p.name for p in place.iterdir()]
    assert {*left} <= {f"torchinductor_{getpass.getuser()}"}  # torch's, not ours
    assert not list(out.rglob("*.part"))


@pytest.mark.slow("starts real processes")
def test_several_may_begin_in_one_folder(tmp_path):
    """At the same moment: none sees another's trial of whether it can be written."""
    out = tmp_path / "out"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(reproduce._writable, [out] * 400))
    assert list(out.iterdir()) == []
