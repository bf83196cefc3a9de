"""Real processes on this machine: a server, its sites, and one that is killed."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from troth import api, config, folder
from troth.build import build
from troth.datasets._files import locate
from troth.datasets.heart_disease import HOSPITALS, SOURCE
from troth.engine import Plan
from troth.types import Refusal

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals" / "run.py"


@pytest.fixture(scope="session")
def example(loopback: Any) -> Any:
    spec = importlib.util.spec_from_file_location("troth_hospitals", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def patients() -> None:
    try:
        locate(SOURCE, None)
    except Refusal as missing:
        pytest.skip(str(missing))


def honest(clients: Any) -> float:
    """Sample-weighted accuracy of the hospitals that do not poison."""
    ok = np.array([k for k, name in enumerate(HOSPITALS) if name != "va"])
    size = np.asarray(clients["test"])[ok]
    return float((np.asarray(clients["accuracy"])[ok] * size).sum() / size.sum())


@pytest.mark.data
def test_four_hospitals(tmp_path: Path, example: Any, patients: None) -> None:
    """One sends A3, one is killed in round 3 and comes back."""
    out = example.main(tmp_path / "f", limit=400.0)
    said = (tmp_path / "f" / "server.log").read_text()
    assert (out / "summary.json").exists(), said
    found = json.loads((out / "summary.json").read_text())
    assert found["farthest"][0]["name"] == "va"
    assert found["farthest"][0]["distance"] > 2 * found["farthest"][1]["distance"]
    lines = (out / "rounds.jsonl").read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    assert len(rounds) == 8 and not any(r["stayed"] for r in rounds)
    missed = [r["round"] for r in rounds if r["absent"] == [2]]
    assert missed and missed[0] == 2 and missed == list(range(2, 2 + len(missed)))
    [state] = [
        p for p in (tmp_path / "f" / "switzerland").iterdir() if len(p.name) == 16
    ]
    kept = {int(p.stem) for p in state.glob("0*.safetensors")}
    assert kept == {*range(1, 9)} - {r + 1 for r in missed}  # it went on from there
    assert set(found["heard"]) == {*HOSPITALS}
    table = (out / "clients.csv").read_text().splitlines()
    head = table[0].split(",")
    rows = [dict(zip(head, line.split(","), strict=True)) for line in table[1:]]
    mine = {
        "test": [float(row["test"]) for row in rows],
        "accuracy": [float(row["personal_accuracy"]) for row in rows],
    }
    clean = {**config.read(EXAMPLE.with_name("hospitals.toml")), "seed": 0}
    clean["engine"] |= {"how": "vmap", "chunk": 4}
    [run] = api.run(clean, out=tmp_path / "clean")
    assert honest(mine) > honest(run.clients) - 0.06  # one split, 145 patients


@pytest.mark.data
def test_five_splits_with_and_without_a_hostile_hospital(
    tmp_path: Path, patients: None
) -> None:
    """In simulations, which Flower equals."""
    pairs = []
    for seed in range(5):
        tree = {**config.read(EXAMPLE.with_name("hospitals.toml")), "seed": seed}
        tree["engine"] |= {"how": "vmap", "chunk": 4}
        [clean] = api.run(tree, out=tmp_path / f"clean{seed}")
        tree |= {"adversary": {"clients": [3]}, "attack": "model_replacement"}
        [drill] = api.run(tree, out=tmp_path / f"drill{seed}")
        pairs.append([honest(clean.clients), honest(drill.clients)])
    a, b = np.mean(pairs, axis=0)
    assert abs(a - b) < 0.03


def certified(path: Path, names: str) -> None:
    """Certificates and keys, by the three commands of the page."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    make = ["openssl", "req", "-x509", *curve, "-days", "2", "-subj"]
    tls = path / "tls"
    tls.mkdir()
    own = ["-keyout", str(path / "ca.key"), "-out", str(tls / "ca.pem")]
    alias = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    above = ["-CA", str(tls / "ca.pem"), "-CAkey", str(path / "ca.key")]
    its = ["-keyout", str(tls / "server.key"), "-out", str(tls / "server.pem")]
    commands = [[*make, "/CN=our CA", *own]]
    commands += [[*make, "/CN=localhost", *alias, *above, *its]]
    kind = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f"]
    commands += [[*kind, str(path / name)] for name in names]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def wait(process: Any, until: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while process.poll() is None and not until() and time.monotonic() < end:
        time.sleep(0.1)


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("ssh-keygen")),
    reason="needs openssl and ssh-keygen",
)
def test_processes_give_what_a_simulation_gives(
    tmp_path: Path, example: Any, tree: dict[str, Any]
) -> None:
    """With TLS and keys; the server is killed on the way, and a stranger tries."""
    tree["partition"]["clients"] = 2
    tree["deployment"] |= {"sites": ["a", "b"], "deadline": 60.0}
    tree |= {"solver": "scaffold", "personalizer": {"name": "ditto", "lam": 0.5}}
    tree["train"]["rounds"] = 3
    (tmp_path / "e.toml").write_text(config.dumps(tree))
    certified(tmp_path, "abx")
    port, ours, out = str(example.free_port()), [], tmp_path / "out"
    for name in "abx":
        flags = ["--server", f"127.0.0.1:{port}", "--tls", "tls/ca.pem", "--keys", name]
        flags += ["--data", "experiment", "--state", f"state-{name}"]
        flags += ["--name", "a" if name == "x" else name]  # x calls itself a
        ours.append(example.start(tmp_path, "client", "e.toml", *flags, log=name))
    flags = ["--out", "out", "--host", "127.0.0.1", "--port", port]
    flags += ["--tls", "tls", "--keys", "."]
    try:
        first = example.start(tmp_path, "server", "e.toml", *flags)
        ours.append(first)
        wait(first, lambda: example.rounds(out) >= 1, 150)
        first.kill()
        first.wait()
        second = example.start(tmp_path, "server", "e.toml", *flags)
        ours.append(second)
        wait(second, lambda: False, 150)
    finally:
        for process in ours:
            process.kill()
            process.wait()
    assert ours[-1].returncode == 0, (tmp_path / "server.log").read_text()
    assert "round" not in (tmp_path / "x.log").read_text()  # it never got in
    assert "trying again in" in (tmp_path / "x.log").read_text()
    f = build(config.from_dict(tree), plan=Plan("loop", 1)).federation
    for _ in f.train():
        pass
    tensors, facts = folder.load(out / folder.CHECKPOINT)
    assert (tensors["w"] - f.broadcast.w).abs().max() < 1e-5
    rows = f.population.read(np.arange(2))
    for k, name in enumerate("ab"):
        file = tmp_path / f"state-{name}" / facts["run"] / "00000003.safetensors"
        assert (folder.load(file)[0]["row"][0] - rows[k]).abs().max() < 1e-5
