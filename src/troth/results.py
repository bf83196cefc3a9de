"""What a run found, and its files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from troth import evaluation, folder, seeding, summary, tasks
from troth.build import Built
from troth.journal import Journal

Tables = dict[str, evaluation.Table]


def evaluate(built: Built) -> Tables:
    """Every client's own model, and the shared one, on the client's own test data."""
    f, split = built.federation, built.data.test
    ids = evaluated(built)
    shared = evaluation.shared(f.engine, f.broadcast.w, split, ids)
    if f.population.width == 0:
        return {"personal": shared, "shared": shared}
    own = evaluation.personal(f.engine, f.broadcast.w, f.population, split, ids)
    return {"personal": own, "shared": shared}


def evaluated(built: Built) -> np.ndarray:
    """Whom an evaluation looks at: all clients, or always the same sample."""
    n, some = built.federation.population.n, built.experiment.evaluate.clients
    if not some or some >= n:
        return np.arange(n)
    return np.sort(seeding.choose(built.experiment.seed, "evaluate", 0, n, some))


def summaries(built: Built, tables: Tables) -> dict[str, Any]:
    """Over benign clients, for personal and shared models."""
    ids = evaluated(built)
    size = built.data.test.size.cpu().numpy()[ids]
    hostile = built.hostile[ids]
    return {
        kind: summary.summarise(table, size, hostile) for kind, table in tables.items()
    }


def write(
    built: Built,
    path: Path,
    journal: Journal,
    tables: Tables,
    began: float,
) -> dict[str, Any]:
    """The files of a finished run; the summary last, since it says so."""
    f, ids = built.federation, evaluated(built)
    n, data = f.population.n, built.data
    columns: dict[str, Any] = {"client": np.arange(n), "malicious": built.hostile}
    for name in ("train", "valid", "test"):
        columns[name] = getattr(data, name).size.cpu().numpy()
    columns |= {"asked": journal.asked, "dropped": journal.dropped}
    for kind, prefix in (("personal", ""), ("shared", "shared_")):
        for name, values in tables[kind].items():
            whole = np.full(n, np.nan)
            whole[ids] = values
            columns[prefix + name] = whole
    folder.write_csv(path / folder.CLIENTS, columns)
    save_models(built, path)
    result = {
        **summaries(built, tables),
        "clients": n,
        "malicious": int(built.hostile.sum()),
        "rounds": f.rounds,
        "client_steps": int(built.client_steps),
        "seconds": time.monotonic() - began,
    }
    folder.write_json(path / folder.SUMMARY, result)
    checkpoint = path / folder.CHECKPOINT
    checkpoint.unlink(missing_ok=True)
    if checkpoint.parent.exists():
        checkpoint.parent.rmdir()
    return folder.plain(result)  # type: ignore[no-any-return]


def save_models(built: Built, path: Path) -> None:
    """The shared model by name, and the clients' own as rows."""
    f = built.federation
    tasks.assign(built.network, f.broadcast.w)
    folder.save(path / folder.SHARED, dict(built.network.state_dict()))
    if not built.experiment.output.personal or f.population.width == 0:
        return
    ids = f.population.visited
    rows = [
        f.engine.models(f.broadcast.w, f.population.read(ids[k : k + 64])).cpu()
        for k in range(0, len(ids), 64)
    ]
    first = f.engine.models(f.broadcast.w, f.population.start[None])
    parameters = torch.cat([*rows, first.cpu()])  # the last: clients never asked
    client = torch.from_numpy(np.append(ids, -1))
    folder.save(path / folder.PERSONAL, {"client": client, "parameters": parameters})
