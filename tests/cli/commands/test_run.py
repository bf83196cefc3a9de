import json
import re

import numpy as np
import pytest

from troth import api, files
from troth.config import reader
from troth.runs import train
from troth.runs.load import Run


def test_json_is_one_object_on_stdout(one):
    out, result = one
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found) == ["runs", "comparisons"] and found["comparisons"] == []
    (run,) = found["runs"]
    experiment = Run(out).experiment
    assert run == {
        "id": reader.fingerprint(experiment),
        "folder": str(out),
        "experiment": reader.to_dict(experiment),
        "summary": json.loads((out / files.SUMMARY).read_text()),
    }
    assert run["id"] == experiment.resolved["fingerprint"]
    assert run["experiment"]["resolved"]["plan"]["how"] == "vmap"


def test_people_read_stderr(one):
    out, result = one
    text = result.stderr
    assert f"Writing to {out}" in text and "tiny: round 3/3" in text
    assert "Accuracy of the clients' own models" in text and "over 6 clients" in text
    assert re.search(r"Time: set-up \d+\.\d s, training \d+\.\d s", text)
    for column in ("mean", "std", "worst 10 %", "weighted", "shared mean", "seconds"):
        assert column in text
    assert f"{Run(out).summary['personal']['accuracy_mean']:.3f}" in text
    assert f"troth predict {out} --client 0" in text and f"troth cite {out}" in text
    assert "has a mean accuracy" not in text  # words are for the quickstart


def test_a_grid_is_compared(grid):
    out, result = grid
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert len(found["runs"]) == 6 and len({r["id"] for r in found["runs"]}) == 6
    kinds = [c["kind"] for c in found["comparisons"]]
    assert kinds == ["seeds"] * 3 + ["paired"] * 3  # over both seeds
    first, pair = found["comparisons"][0], found["comparisons"][3]
    assert first["seeds"] == [0, 1] and first["label"] == "personalizer=none"
    assert pair["setting"] == "personalizer.name" and pair["n"] == 6
    ids = [run["id"] for run in found["runs"]]
    assert (pair["first"], pair["second"]) == (ids[:2], ids[2:4])
    a, b = (
        [
            Run(out / f"personalizer={name},seed={seed}").clients["accuracy"]
            for seed in (0, 1)
        ]
        for name in ("none", "local")
    )
    d = np.array(b) - np.array(a)
    assert pair["mean_difference"] == pytest.approx(d.mean())
    assert pair["better"] == (d.mean(axis=0) > 0).sum()
    assert pair["seeds"] == 2 and pair["p_holm"] >= pair["p_value"]


def test_a_grid_for_people(grid):
    out, result = grid
    text = result.stderr
    assert "no personalizer,seed=0" in text and "ditto,lam=0.5,seed=1" in text
    assert "Over seeds" in text and " ± " in text
    assert "local − no personalizer: " in text and "Two seeds are too few" in text
    assert "Client by client, 2 seeds: " in text and "3 comparisons (Holm)" in text
    assert "better for" in text and "p = " in text
    assert f"Files: {out}, one folder per run" in text
    assert "'" not in text.split("troth predict ")[1].split(" --client")[0]


def test_runs_of_a_named_grid_have_names_of_their_own(troth, written, tiny, tmp_path):
    text = f'name = "x"\n{tiny}[grid]\nseed = [0, 1]\n'
    file = written(tmp_path / "named.toml", text)
    result = troth("run", file, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "x,seed=0: round 3/3" in result.stderr
    assert "x,seed=1: round 3/3" in result.stderr
    assert Run(tmp_path / "out" / "seed=1").experiment.name == "x,seed=1"
    assert api.plan({"name": "x"}, None)[0].experiment.name == "x"


def test_quiet(troth, written, tiny, tmp_path):
    file = written(tmp_path / "tiny.toml", tiny)
    result = troth("run", file, "--out", tmp_path / "a", "--quiet")
    assert "round" not in result.stdout.split("Files:")[0]
    assert "worst 10 %" in result.stdout and result.stderr == ""
    result = troth("run", file, "--out", tmp_path / "b", "--quiet", "--json")
    assert result.stderr == "" and json.loads(result.stdout)["runs"]


def test_settings_and_the_quickstart(troth, tmp_path, monkeypatch):
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
    words = f"mean accuracy of {shared:.3f} over {some} benign clients"
    assert words in result.stderr


def test_dry_run(troth, written, tiny, many, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path / "many.toml", tiny + many)
    result = troth("run", file, "--dry-run")
    assert result.exit_code == 0
    assert "client-steps" in result.stdout and "ditto,lam=0.5,seed=1" in result.stdout
    result = troth("run", file, "--dry-run", "--json")
    found = json.loads(result.stdout)["runs"]
    names = ["label", "client_steps", "memory_bytes", "disk_bytes", "seconds"]
    assert list(found[0]) == [*names, "experiment"] and result.stderr == ""
    assert found[0]["seconds"] is None  # engine.how is set, so nothing is measured
    assert [f["client_steps"] for f in found] == [18] * 6
    assert found[0]["label"] == "personalizer=none,seed=0"
    assert found[0]["memory_bytes"] > 1797 * 64
    assert found[5]["experiment"]["personalizer"]["lam"] == 0.5
    assert [p.name for p in tmp_path.iterdir()] == ["many.toml"]
    single = troth("run", "--dry-run", "--json", written(tmp_path / "a.toml", tiny))
    assert json.loads(single.stdout)["runs"][0]["label"] == "a"


def test_ctrl_c_before_anything_is_saved(troth, tmp_path, monkeypatch):
    out = tmp_path / "a b"

    def stopped(*_, **__):
        raise KeyboardInterrupt

    def unsaved(*_, watch, **__):  # without checkpoints
        watch(train.Progress("", 2, 9, None))
        raise train.Interrupted(out)

    def in_a_grid(*_, watch, **__):
        watch(train.Progress("seed=1", 16, 400, None, None, 3, 32))
        raise train.Interrupted(out)

    for how, words in (
        (stopped, "troth: stopped; nothing was written"),
        (stopped, f"troth: stopped; continue with: troth resume '{out}'"),
        (unsaved, "after round 2 of 9, not saved (output.checkpoint = false)"),
        (unsaved, f"troth resume '{out}'"),
        (in_a_grid, "stopped in run 3 of 32 (seed=1) after round 16 of 400, not saved"),
    ):
        monkeypatch.setattr(api, "run", how)
        result = troth("run", "--out", out)
        assert result.exit_code == 130 and result.stdout == ""
        assert words in result.stderr
        out.mkdir(exist_ok=True)


def test_a_part_without_runs_ends_well(troth, written, tiny, tmp_path):
    """Such as some jobs of an array with more jobs than the grid has runs."""
    file = written(tmp_path / "tiny.toml", f"{tiny}[grid]\nseed = [0, 1]\n")
    command = ["run", file, "--out", tmp_path / "grid", "--part", "1/3"]
    result = troth(*command, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"runs": [], "comparisons": []}
    result = troth(*command)
    assert result.exit_code == 0 and "has no runs" in result.stderr
    assert [place.name for place in (tmp_path / "grid").iterdir()] == [files.GRID]
