"""Runs made by hand, file by file, for tests of what is said about runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from troth import files
from troth.config import reader
from troth.evaluation.evaluate import summarise


def written(
    path: Path,
    accuracy: Any,
    *,
    shared: Any = None,
    personalizer: Any = "ditto",
    hostile: Any = None,
    test: Any = None,
    seed: int = 0,
    attack: str = "none",
    corruption: str = "none",
    classes: int = 10,
    **more: Any,
) -> Path:
    """A finished run whose clients have these accuracies; `more`: further columns."""
    own = np.asarray(accuracy, dtype=float)
    n = len(own)
    bad = np.zeros(n, bool) if hostile is None else np.asarray(hostile, dtype=bool)
    tree: dict[str, Any] = {
        "seed": seed,
        "data": "digits",
        "partition": {"name": "iid", "clients": n},
        "personalizer": personalizer,
        "attack": attack,
        "corruption": corruption,
        "train": {"rounds": 4},
    }
    if bad.any():
        tree["adversary"] = {"clients": np.flatnonzero(bad).tolist()}
    e = reader.from_dict(tree)
    sections = reader.to_dict(e)
    versions = {"python": "3.11.7", "troth": "0.1.0", "torch": "2.13.0"}
    sections["resolved"] = {"clients": n, "classes": classes, "versions": versions}
    sections["resolved"] |= {"fingerprint": reader.fingerprint(e), "shape": [1, 8, 8]}
    sections["resolved"] |= {"malicious": int(bad.sum()), "git": "0" * 40}
    sections["resolved"]["parameters"] = 650
    path.mkdir(parents=True)
    files.write(path / files.EXPERIMENT, reader.dumps(sections))
    columns: dict[str, Any] = {"client": np.arange(n), "malicious": bad}
    columns |= {"train": np.full(n, 40), "valid": np.full(n, 5)}
    columns["test"] = np.full(n, 10) if test is None else np.asarray(test)
    columns["asked"] = np.full(n, 3)
    columns |= {k: np.asarray(v) for k, v in more.items()}
    both = own if shared is None else np.asarray(shared, dtype=float)
    columns |= {"accuracy": own, "loss": 1 - own}
    columns |= {"shared_accuracy": both, "shared_loss": 1 - both}
    files.write_csv(path / files.CLIENTS, columns)
    kinds = {"personal": own, "shared": both}
    said: dict[str, Any] = {
        kind: summarise({"accuracy": values, "loss": 1 - values}, columns["test"], bad)
        for kind, values in kinds.items()
    }
    lines = [
        json.dumps(files.plain({"round": r, "cohort": [], "evaluation": said}))
        for r in range(4)
    ]
    (path / files.ROUNDS).write_text("\n".join(lines) + "\n")
    if e.personalizer.name != "none":  # there, but not to be read
        (path / files.PERSONAL).write_bytes(b"")
    summary = {**said, "clients": n, "malicious": int(bad.sum()), "rounds": 4}
    files.write_json(path / files.SUMMARY, {**summary, "seconds": 1.25, "stayed": 0})
    return path
