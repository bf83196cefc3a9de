"""The results of a run, and the files to which they are written."""

import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from troth import files, seeding
from troth.build import Built
from troth.evaluation import evaluate as evaluation
from troth.federation.rounds import Federation
from troth.files import METRICS
from troth.networks import task
from troth.runs.checkpoint import Journal
from troth.types import Aim, Split

Tables = dict[str, evaluation.Table]
"""Tables of scores under "personal" and "shared". If the data have a further test set
NAME, there are also "personal/NAME" and "shared/NAME"."""
_NUMBERS = 2**21  # number of parameters of all models that are written at once


def evaluate(
    built: Built, ids: np.ndarray | None = None, on: Literal["test", "valid"] = "test"
) -> Tables:
    """Evaluate each client's personal model and the shared model on the client's data.

    Args:
        built: Federation, trained or not.
        ids: Clients to evaluate. None means those of `evaluated`.
        on: Data to evaluate on. With "test", further test sets and the success rate of
            the attack are evaluated too.

    Returns:
        Tables of scores by name, see `Tables`.
    """
    ids, data = evaluated(built) if ids is None else ids, built.data
    aim = built.aim if on == "test" else None
    tables = _tables(built, getattr(data, on), ids, aim)
    for name, split in data.tests.items() if on == "test" else ():
        found = _tables(built, split, ids, None)
        tables |= {f"{kind}/{name}": table for kind, table in found.items()}
    return tables


def _tables(built: Built, split: Split, ids: np.ndarray, aim: Aim | None) -> Tables:
    f, w = built.federation, built.federation.broadcast.w
    shared = evaluation.shared(f.engine, w, split, ids, aim)
    if f.population.width == 0:
        return {"personal": shared, "shared": shared}
    own = evaluation.personal(f.engine, w, f.population, split, ids, aim)
    return {"personal": own, "shared": shared}


def evaluated(built: Built) -> np.ndarray:
    """Return the clients to evaluate: all that can train, or a fixed sample of them."""
    members, some = built.federation.members, built.experiment.evaluate.clients
    n, seed = len(members), built.experiment.seed
    if not some or some >= n:
        return members
    sample: np.ndarray = members[np.sort(seeding.choose(seed, "evaluate", 0, n, some))]
    return sample


def summaries(
    built: Built,
    tables: Tables,
    ids: np.ndarray | None = None,
    on: Literal["test", "valid"] = "test",
) -> dict[str, Any]:
    """Summarize tables over benign clients, for personal and shared models.

    Args:
        built: Federation that was evaluated.
        tables: Result of `evaluate`.
        ids: Clients that were evaluated, as in `evaluate`.
        on: Data that were used, as in `evaluate`.

    Returns:
        The summaries `personal` and `shared`. If there are further test sets, `tests`
        maps their names to such summaries.
    """
    ids = evaluated(built) if ids is None else ids
    data, found = built.data, dict[str, Any]()
    for key, table in tables.items():
        kind, _, name = key.partition("/")
        split = data.tests[name] if name else getattr(data, on)
        at = found.setdefault("tests", {}).setdefault(name, {}) if name else found
        own = tables.get(f"personal{key.removeprefix('shared')}")
        if kind == "shared" and table is own:
            at[kind] = dict(at["personal"])  # there are no personal models
            continue
        size = split.size.cpu().numpy()[ids]
        at[kind] = evaluation.summarise(table, size, built.hostile[ids])
    return found


def write(
    built: Built, path: Path, journal: Journal, tables: Tables, began: float
) -> dict[str, Any]:
    """Write the files of a finished run.

    The summary is written last, because it marks a run as finished.

    Args:
        built: Trained federation.
        path: Folder of the run.
        journal: Counts that were collected during training.
        tables: Evaluation after the last round.
        began: `time.monotonic()` at the start of training.

    Returns:
        The summary, as in `summary.json`.
    """
    f, data = built.federation, built.data
    n, late = f.population.n, f.newcomers
    columns: dict[str, Any] = {"client": np.arange(n)}
    if "owners" in built.facts:
        columns[files.OWNER] = built.facts["owners"]
    columns["malicious"] = built.hostile
    scored = [(evaluated(built), tables)]
    summary = summaries(built, tables)
    if len(late):
        columns["newcomer"] = np.isin(columns["client"], late)
        scored.append((late, evaluate(built, late)))
        own = summaries(built, scored[-1][1], late)
        summary |= {"newcomers": own["personal"], "newcomers_shared": own["shared"]}
        summary |= {"newcomers_tests": own["tests"]} if "tests" in own else {}
    chosen_by: Tables = {}
    if len(data.valid.y):  # to choose options without test data
        chosen_by = evaluate(built, on="valid")
        summary["valid"] = summaries(built, chosen_by, on="valid")
    for name in ("train", "valid", "test"):
        columns[name] = getattr(data, name).size.cpu().numpy()
    columns |= {name: test.size.cpu().numpy() for name, test in data.tests.items()}
    columns |= journal.counts
    if built.prepared:
        columns["imputed"] = built.prepared.imputed.reshape(n, -1).sum(axis=1)
    columns |= _revealed(f)
    columns |= _scores(scored, n) | _scores([(scored[0][0], _valid(chosen_by))], n)
    files.write_csv(path / files.CLIENTS, columns)
    save_models(built, path)
    result = {
        **summary,
        "clients": n,
        "malicious": int(built.hostile.sum()),
        "rounds": f.rounds,
        "stayed": journal.stayed,
        "client_steps": int(built.client_steps),
        "setup_seconds": built.seconds,
        "seconds": time.monotonic() - began,
    }
    files.write_json(path / files.SUMMARY, result)
    return files.plain(result)  # type: ignore[no-any-return]


def _valid(tables: Tables) -> Tables:
    """Return only the main scores, as tables of the test set "valid"."""
    return {
        f"{kind}/valid": {k: v for k, v in table.items() if k in METRICS}
        for kind, table in tables.items()
    }


def _scores(scored: list[tuple[np.ndarray, Tables]], n: int) -> evaluation.Table:
    """Return one column [n] per score; NaN for clients without this score."""
    columns = {}
    for key in scored[0][1]:
        kind, _, test = key.partition("/")
        words = [*([kind] if kind == "shared" else []), *([test] if test else [])]
        for name in dict.fromkeys(name for _, each in scored for name in each[key]):
            whole = np.full(n, np.nan)
            for ids, tables in scored:
                whole[ids] = tables[key].get(name, np.nan)
            columns["_".join([*words, name])] = whole
    return columns


def _revealed(f: Federation) -> dict[str, np.ndarray]:
    """Return the columns in which clients report on their state, such as a chosen λ."""
    columns, ids = f.engine.client.columns, f.population.visited
    if not columns:
        return {}
    never = f.engine.told(f.population.start[None]).cpu().numpy()
    table = np.tile(never, (f.population.n, 1))
    for some, rows in f.population.each(_groups(f, ids)):
        settled = f.engine.settled(rows, some)
        table[some] = f.engine.told(settled).cpu().numpy()
    return dict(zip(columns, table.T, strict=True))


def save_models(built: Built, path: Path) -> None:
    """Write the shared model, the personal models and the input preparation."""
    f = built.federation
    task.assign(built.network, f.broadcast.w)
    state = built.network.state_dict()
    tensors = {n: t for n, t in state.items() if isinstance(t, Tensor)}
    own = {name: tensor.clone() for name, tensor in tensors.items()}  # may share memory
    files.save(path / files.SHARED, own)
    if built.prepared:
        files.save(path / files.FEATURES, built.prepared.tensors())
    if not built.experiment.output.personal or f.population.width == 0:
        return
    ids, dtype = f.population.visited, f.population.start.dtype
    client = torch.from_numpy(np.append(ids, -1))  # −1: clients never sampled
    shapes = {
        "client": (client.dtype, [len(client)]),
        "parameters": (dtype, [len(client), f.engine.task.d]),
    }
    models = (m.to(dtype) for m in _models(f, ids))
    files.stream(path / files.PERSONAL, shapes, chain([client], models))


def _models(f: Federation, ids: np.ndarray) -> Iterator[Tensor]:
    """Yield clients' models in groups, then the model of clients never sampled."""
    for some, rows in f.population.each(_groups(f, ids)):
        yield f.engine.models(f.broadcast.w, f.engine.settled(rows, some))
    yield f.engine.models(f.broadcast.w, f.population.start[None])


def _groups(f: Federation, ids: np.ndarray) -> list[np.ndarray]:
    """Divide the clients into groups whose models fit in memory together."""
    some = max(1, min(64, _NUMBERS // max(f.engine.task.d, f.population.width)))
    return [ids[k : k + some] for k in range(0, len(ids), some)]
