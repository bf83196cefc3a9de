from __future__ import annotations

import ast
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from troth import api, cli, config, folder, runs
from troth.loading import Run

TINY = """
[data]
name = "digits"
[partition]
name = "iid"
clients = 6
[train]
rounds = 3
steps = 1
batch = 8
[evaluate]
every = 2
[engine]
how = "vmap"
chunk = 6
device = "cpu"
"""
GRID = """
[grid]
personalizer = ["none", "local", { name = "ditto", lam = 0.5 }]
seed = [0, 1]
"""
TROTH = [sys.executable, "-c", "from troth.cli import main; main()"]
SAME = (folder.SHARED, folder.PERSONAL, folder.CLIENTS, folder.ROUNDS)


def troth(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A single run, as its command left it."""
    place = tmp_path_factory.mktemp("one")
    file = written(place / "tiny.toml", TINY + '[personalizer]\nname = "local"\n')
    return place / "out", troth("run", file, "--out", place / "out", "--json")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Three personalizers and two seeds."""
    place = tmp_path_factory.mktemp("grid")
    file = written(place / "many.toml", TINY + GRID)
    return place / "out", troth("run", file, "--out", place / "out", "--json")


def test_json_is_one_object_on_stdout(one: tuple[Path, Result]) -> None:
    out, result = one
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found) == ["runs", "comparisons"] and found["comparisons"] == []
    (run,) = found["runs"]
    assert list(run) == ["id", "folder", "experiment", "summary"]
    assert run["folder"] == str(out)
    assert run["summary"] == json.loads((out / folder.SUMMARY).read_text())
    experiment = Run(out).experiment
    assert (
        run["id"]
        == experiment.resolved["fingerprint"]
        == config.fingerprint(experiment)
    )
    assert run["experiment"] == config.to_dict(experiment)
    assert run["experiment"]["resolved"]["plan"]["how"] == "vmap"


def test_people_read_stderr(one: tuple[Path, Result]) -> None:
    out, result = one
    text = result.stderr
    assert f"Writing to {out}" in text and "tiny: round 3/3" in text
    assert "Accuracy of the clients' own models" in text and "over 6 clients" in text
    for column in ("mean", "std", "worst 10 %", "weighted", "shared mean", "seconds"):
        assert column in text
    mean = Run(out).summary["personal"]["accuracy_mean"]
    assert f"{mean:.3f}" in text
    assert f"troth predict {out} --client 0" in text and f"troth cite {out}" in text
    assert "On average" not in text  # words are for the quickstart


def test_a_grid_is_compared(grid: tuple[Path, Result]) -> None:
    out, result = grid
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert len(found["runs"]) == 6 and len({r["id"] for r in found["runs"]}) == 6
    kinds = [c["kind"] for c in found["comparisons"]]
    assert kinds == ["seeds"] * 3 + ["paired"] * 4
    first, pair = found["comparisons"][0], found["comparisons"][3]
    assert first["seeds"] == [0, 1] and first["label"] == "personalizer=none"
    means = [r["summary"]["personal"]["accuracy_mean"] for r in found["runs"][:2]]
    half = first["numbers"]["personal.accuracy_mean"]["half_width"]
    assert first["numbers"]["personal.accuracy_mean"]["mean"] == np.mean(means)
    assert half == pytest.approx(12.706204736 * abs(means[0] - means[1]) / 2)
    assert pair["setting"] == "personalizer.name" and pair["n"] == 6
    assert (pair["first"], pair["second"]) == (
        found["runs"][0]["id"],
        found["runs"][2]["id"],
    )
    a, b = (
        Run(out / n).clients["accuracy"]
        for n in ("personalizer=none,seed=0", "personalizer=local,seed=0")
    )
    assert pair["mean_difference"] == pytest.approx(np.mean(b - a))
    assert pair["better"] == (b > a).sum()


def test_a_grid_for_people(grid: tuple[Path, Result]) -> None:
    out, result = grid
    text = result.stderr
    assert "no personalizer,seed=0" in text and "ditto,lam=0.5,seed=1" in text
    assert "Over seeds" in text and " ± " in text
    assert "local − no personalizer (seed=0): " in text
    assert "better for" in text and "p = " in text
    assert f"Files: {out}, a folder a run" in text
    assert "'" not in text.split("troth predict ")[1].split(" --client")[0]


def test_every_run_of_a_named_grid_has_a_name_of_its_own(tmp_path: Path) -> None:
    text = f'name = "x"\n{TINY}[grid]\nseed = [0, 1]\n'
    file = written(tmp_path / "named.toml", text)
    result = troth("run", file, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "x,seed=0: round 3/3" in result.stderr
    assert "x,seed=1: round 3/3" in result.stderr
    assert Run(tmp_path / "out" / "seed=1").experiment.name == "x,seed=1"
    assert api.plan({"name": "x"}, None)[0].experiment.name == "x"


def test_quiet(tmp_path: Path) -> None:
    file = written(tmp_path / "tiny.toml", TINY)
    result = troth("run", file, "--out", tmp_path / "a", "--quiet")
    assert "round" not in result.stderr.split("Files:")[0]
    assert "worst 10 %" in result.stderr and result.stdout == ""
    result = troth("run", file, "--out", tmp_path / "b", "--quiet", "--json")
    assert result.stderr == "" and json.loads(result.stdout)["runs"]


def test_settings_and_the_quickstart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sets = ["train.rounds=1", "engine.how=vmap", "engine.chunk=10", "model=linear"]
    result = troth("run", *(part for s in sets for part in ("--set", s)), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["runs"]
    assert all(r["experiment"]["train"]["rounds"] == 1 for r in found)
    assert all(r["experiment"]["model"]["name"] == "linear" for r in found)
    (root,) = (tmp_path / "runs").iterdir()
    assert root.name.startswith("quickstart-") and len(found) == 3
    first = found[0]["summary"]
    shared, n = first["shared"]["accuracy_mean"], first["clients"]
    some = n - first["malicious"]
    assert some < n and f"the {some} benign of {n} clients" in result.stderr
    words = f"{some} benign clients the accuracy of the shared model is {shared:.3f}"
    assert words in result.stderr


def test_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path / "many.toml", TINY + GRID)
    result = troth("run", file, "--dry-run")
    assert result.exit_code == 0 and result.stdout == ""
    assert "client-steps" in result.stderr and "ditto,lam=0.5,seed=1" in result.stderr
    result = troth("run", file, "--dry-run", "--json")
    found = json.loads(result.stdout)["runs"]
    bytes_ = ["memory_bytes", "disk_bytes"]
    assert list(found[0]) == ["label", "client_steps", *bytes_, "experiment"]
    assert [f["client_steps"] for f in found] == [18] * 6 and result.stderr == ""
    assert found[0]["label"] == "personalizer=none,seed=0"
    assert found[0]["memory_bytes"] > 1797 * 64
    assert found[5]["experiment"]["personalizer"]["lam"] == 0.5
    assert [p.name for p in tmp_path.iterdir()] == ["many.toml"]
    single = troth("run", "--dry-run", "--json", written(tmp_path / "a.toml", TINY))
    assert json.loads(single.stdout)["runs"][0]["label"] == "a"


def test_resume_of_what_is_finished(
    one: tuple[Path, Result], grid: tuple[Path, Result]
) -> None:
    for out, first in (one, grid):
        before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
        result = troth("resume", out, "--json")
        assert result.exit_code == 0 and "finished already" in result.stderr
        again = json.loads(result.stdout)
        assert again["runs"] == json.loads(first.stdout)["runs"]
        assert before == {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}


def test_resume_of_half_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "g.toml", TINY + "[grid]\nseed = [0, 1, 2]\n")

    def stop(p: runs.Progress) -> None:
        if p.label == "seed=1" and p.done == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(runs.Interrupted):
        api.run(file, out=tmp_path / "half", watch=stop)
    assert not (tmp_path / "half" / "seed=2").exists()
    result = troth("resume", tmp_path / "half", "--json")
    assert result.exit_code == 0, result.output
    assert troth("run", file, "--out", tmp_path / "whole").exit_code == 0
    for seed in range(3):
        same(tmp_path / "half" / f"seed={seed}", tmp_path / "whole" / f"seed={seed}")
    assert len(json.loads(result.stdout)["runs"]) == 3


def same(a: Path, b: Path) -> None:
    for name in SAME:
        if (a / name).exists() or (b / name).exists():
            assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert sorted(p.name for p in a.iterdir()) == sorted(p.name for p in b.iterdir())


LONG = """
[checkpoint]
every = 1
[personalizer]
name = "ditto"
[adversary]
fraction = 0.2
"""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An experiment that takes a while, and its folder when nothing stops it."""
    place = tmp_path_factory.mktemp("long")
    text = (TINY + LONG).replace("rounds = 3", "rounds = 300")
    file = written(place / "long.toml", text)
    done = subprocess.run([*TROTH, "run", file, "--out", place / "out"], check=False)
    assert done.returncode == 0
    return file, place / "out"


def begun(file: Path, out: Path, waits_for: str) -> subprocess.Popen[str]:
    """A run in a process of its own that has come as far as writing a file."""
    process = subprocess.Popen(
        [*TROTH, "run", file, "--out", out], stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 300
    while not (out / waits_for).exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)
    return process


def resumed(out: Path) -> None:
    done = subprocess.run([*TROTH, "resume", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_saves_and_resume_goes_on(
    tmp_path: Path, long: tuple[Path, Path]
) -> None:
    file, whole = long
    process = begun(file, tmp_path / "out", folder.CHECKPOINT)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert not (tmp_path / "out" / folder.SUMMARY).exists()
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith("troth: stopped after round ") and "of 300, saved in" in last
    assert last.endswith(f"go on with: troth resume {tmp_path / 'out'}")
    resumed(tmp_path / "out")
    same(tmp_path / "out", whole)


@pytest.mark.parametrize("waits_for", [folder.EXPERIMENT, folder.CHECKPOINT])
def test_kill_9_and_resume(
    tmp_path: Path, long: tuple[Path, Path], waits_for: str
) -> None:
    file, whole = long
    wait = random.SystemRandom().uniform(0, 0.3)
    print(f"killed after {wait} s")  # for whoever sees this fail
    process = begun(file, tmp_path / "out", waits_for)
    time.sleep(wait)
    process.kill()
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / folder.SUMMARY).exists()
    resumed(tmp_path / "out")
    same(tmp_path / "out", whole)


@pytest.mark.parametrize("made", [False, True])
def test_ctrl_c_before_anything_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    def stopped(*_: object, out: Path, **__: object) -> None:
        if made:
            out.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "run", stopped)
    result = troth("run", "--out", tmp_path / "out")
    assert result.exit_code == 130 and result.stdout == ""
    how = "go on with: troth resume" if made else "nothing was written"
    assert result.stderr.startswith(f"troth: stopped; {how}")


def test_without_checkpoints_nothing_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, out: Path, watch: runs.Watch, **__: object) -> None:
        watch(runs.Progress("", 2, 9, None))
        raise runs.Interrupted(out)

    monkeypatch.setattr(api, "run", stopped)
    result = troth("run", "--out", tmp_path / "a b")
    assert result.exit_code == 130
    assert "after round 2 of 9, not saved (output.checkpoint = false)" in result.stderr
    assert f"troth resume '{tmp_path / 'a b'}'" in result.stderr


def test_a_bug_shows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(api, "run", broken)
    result = troth("run")
    assert isinstance(result.exception, ZeroDivisionError)


def test_list() -> None:
    result = troth("list", "personalizer")
    assert result.exit_code == 0 and result.stderr == ""
    (line,) = (x for x in result.stdout.splitlines() if x.startswith("ditto "))
    assert "lam = 1.0" in line and "li2021ditto" in line
    assert "clients (required)" in troth("list", "partition").stdout
    every = json.loads(troth("list", "--json").stdout)["kinds"]
    assert {"data", "model", "aggregator", "metric"} <= set(every)
    methods = {m["name"]: m for m in every["partition"]}
    assert methods["classes"]["options"]["clients"] == {
        "required": True,
        "default": None,
    }
    assert methods["classes"]["options"]["per_client"]["default"] == 5
    assert methods["classes"]["summary"] and methods["classes"]["citations"]


def test_cite(one: tuple[Path, Result], grid: tuple[Path, Result]) -> None:
    text = troth("cite").stdout
    assert text.count("@inproceedings{li2021ditto,") == 1
    assert "bagdasaryan2020backdoor" in text and text.startswith("@")
    alone = troth("cite", one[0]).stdout
    assert "bagdasaryan" not in alone and "alpaydin1998digits" in alone
    assert "li2021ditto" not in alone  # `local` has no use for a regularizer
    assert alone.count("@inproceedings{mcmahan2017communication,") == 1
    assert "li2021ditto" in troth("cite", grid[0]).stdout
    found = json.loads(troth("cite", one[0].parent / "tiny.toml", "--json").stdout)
    assert found["citations"][0].startswith("@misc{alpaydin1998digits,")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Some digits in the shapes that a user may have them in."""
    from sklearn.datasets import load_digits

    place, found = tmp_path_factory.mktemp("digits"), load_digits()
    x = found.images[:9].astype(np.uint8)
    np.savez(place / "xy.npz", x=x, y=found.target[:9])
    np.savez(place / "channels.npz", x=x[:, None].astype(np.float32))
    np.savez(place / "float.npz", x=x.astype(np.float32))
    np.savez(place / "short.npz", x=x, y=found.target[:8])
    np.savez(place / "none.npz", y=found.target[:8])
    np.save(place / "x.npy", x)
    (place / "text.npz").write_text("no")
    return place, found.target[:9]


def test_predict(
    one: tuple[Path, Result], digits: tuple[Path, Any], tmp_path: Path
) -> None:
    (out, _), (place, y) = one, digits
    result = troth("predict", out, "--client", 2, "--data", place / "xy.npz")
    assert result.exit_code == 0, result.output
    labels = [int(line) for line in result.stdout.splitlines()]
    assert (
        labels == Run(out).predict(2, np.load(place / "xy.npz")["x"][:, None]).tolist()
    )
    accuracy = np.mean(labels == y)
    assert result.stderr == f"accuracy {accuracy:.3f} on 9 examples\n"
    for name, known in (("xy.npz", accuracy), ("x.npy", None), ("channels.npz", None)):
        result = troth("predict", out, "--client", 2, "--data", place / name, "--json")
        expected = {"client": 2, "predictions": labels, "accuracy": known}
        assert json.loads(result.stdout) == expected
    file = tmp_path / "p.csv"
    data = place / "x.npy"
    result = troth("predict", out, "--client", 2, "--data", data, "--out", file)
    assert (
        result.stdout == "" and folder.read_csv(file)["prediction"].tolist() == labels
    )
    result = troth("predict", out, "--client", 2, "--data", data, "--out", file)
    assert result.exit_code == 2 and "exists already" in result.stderr


@pytest.mark.parametrize(
    ("name", "client", "words"),
    [
        ("float.npz", 0, ["[8, 8]", "[1, 8, 8]"]),
        ("short.npz", 0, ["y has shape (8,)", "9 examples"]),
        ("none.npz", 0, ["has no array x", "np.savez"]),
        ("text.npz", 0, ["text.npz cannot be read (it holds no plain arrays)"]),
        ("missing.npz", 0, ["missing.npz cannot be read"]),
        ("x.npy", 6, ["there is no client 6", "0 to 5"]),
        ("x.npy", -1, ["there is no client -1"]),
    ],
)
def test_predict_refuses(
    one: tuple[Path, Result],
    digits: tuple[Path, Any],
    name: str,
    client: int,
    words: list[str],
) -> None:
    data = digits[0] / name
    result = troth("predict", one[0], "--client", client, "--data", data)
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("troth: ") and all(word in line for word in words)


def test_predict_for_a_grid_names_its_runs(
    grid: tuple[Path, Result], digits: tuple[Path, Any]
) -> None:
    result = troth("predict", grid[0], "--client", 0, "--data", digits[0] / "x.npy")
    assert result.exit_code == 2 and "personalizer=local,seed=1" in result.stderr


def test_predict_a_regression(tmp_path: Path) -> None:
    text = TINY.replace('"digits"', '"linear_regression"').replace('"iid"', '"natural"')
    file = written(tmp_path / "r.toml", text.replace("clients = 6", ""))
    result = troth("run", file, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    assert "Error of the clients' own models" in result.stderr
    assert "error_mean" in json.loads(result.stdout)["runs"][0]["summary"]["personal"]
    d = json.loads(result.stdout)["runs"][0]["experiment"]["resolved"]["shape"][0]
    x = np.eye(d)
    np.savez(tmp_path / "x.npz", x=x, y=np.zeros(d))
    result = troth(
        "predict",
        tmp_path / "out",
        "--client",
        0,
        "--data",
        tmp_path / "x.npz",
        "--json",
    )
    found = json.loads(result.stdout)
    assert found["error"] == pytest.approx(np.mean(np.square(found["predictions"])))


def test_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    from troth import bench

    row = {"model": "tiny", "clients": 4, "device": "cpu", "loop_us": 400.0}
    row |= {"engine_us": 40.0, "ratio": 10.0, "plan": {"how": "vmap", "chunk": 4}}
    monkeypatch.setattr(bench, "measure", lambda quick: [row] * (1 if quick else 2))
    assert json.loads(troth("bench", "--quick", "--json").stdout) == {"rows": [row]}
    text = troth("bench").stdout
    assert text.count("tiny") == 2 and "10.0×" in text and "vmap 4" in text


def test_help_and_version() -> None:
    assert troth("--version").stdout.startswith("troth 0.")
    for arguments in ([], ["--help"], ["-h"]):
        result = troth(*arguments)
        assert result.exit_code == 0 and "predict" in result.stdout
    for command in ("run", "resume", "data", "list", "cite", "predict", "bench"):
        assert troth(command, "--help").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--sett", "a=1"], "No such option: --sett"),
        (["runn"], "No such command 'runn'"),
        (["--bogus"], "No such option: --bogus"),
        (["resume"], "Missing argument"),
        (["predict", "x", "--client", "two", "--data", "y"], "--client"),
        (["run", "a.toml", "b.toml"], "b.toml"),
        (["list", "agregator"], "(did you mean 'aggregator'?)"),
        (["cite", "nowhere.toml"], "nowhere.toml"),
        (["resume", "nowhere"], "nowhere is not the folder of a run"),
        (["predict", "nowhere", "--client", "0", "--data", "y"], "nowhere is not the"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], words: str) -> None:
    result = troth(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("troth: ") and words in line


def test_nothing_heavy_is_imported_before_a_command_runs() -> None:
    files = [Path(cli.__file__), *Path(cli.commands.__file__).parent.glob("*.py")]
    assert len(files) > 7
    for file in files:
        body = ast.parse(file.read_text("utf-8")).body
        top = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
        names = {f"{getattr(n, 'module', '')}.{a.name}" for n in top for a in n.names}
        names = {name.removeprefix(".") for name in names}
        own = {name for name in names if name.startswith("troth.commands")}
        heavy = ("troth", "torch", "numpy", "rich", "scipy", "sklearn", "matplotlib")
        assert not [n for n in names - own if n.split(".")[0] in heavy], file
    code = "import troth.cli, sys; assert not {'torch', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_reader_who_leaves_is_no_error() -> None:
    command = subprocess.Popen(
        [*TROTH, "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None and command.stderr is not None
    command.stdout.close()
    said = command.stderr.read()
    command.stderr.close()
    assert command.wait(timeout=300) == 1 and said == b""
