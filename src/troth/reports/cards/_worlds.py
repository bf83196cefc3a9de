"""Which runs are about the same clients, and which differ by an attack alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from troth import files
from troth.evaluation import compare
from troth.reports.cards._reading import name, quoted
from troth.runs.inspect import Dossier

_CLIENTS = ("seed", "data", "partition", "availability")
_HOSTILE = ("adversary", "attack", "corruption")
_FEW = 5  # models of which all pairs are looked at
_ASIDE = ("name", "resolved", "engine", "checkpoint", "output")


class Model(NamedTuple):
    """One that every client of a world could use."""

    run: Dossier
    kind: str  # personal or shared
    label: str
    said: str  # the same inside a sentence
    values: np.ndarray  # [n] the metric, a client each
    mean: float  # as the summary has it, on test data
    valid: float  # on validation data; NaN: there are none


class Moved(NamedTuple):
    """What an attack did to the shared model."""

    distance: float  # ‖w − w_clean‖₂
    norm: float  # ‖w_clean‖₂
    broken: int  # tensors that are not finite
    tensors: int


def worlds(runs: Sequence[Dossier]) -> list[list[Dossier]]:
    """Finished runs, apart by whom and by whose attack they are about.

    A client may choose among the models of one world: the data, who holds which, the
    seed and the attack are the same.
    """
    found: dict[str, list[Dossier]] = {}
    for run in runs:
        if run.finished:
            key = _written(run, (*_CLIENTS, *_HOSTILE)) + run.metric
            key += f" {len(run.column('client'))} {_late(run)}"
            found.setdefault(key, []).append(run)
    return list(found.values())


def _late(run: Dossier) -> str:
    """How newcomers are dealt with."""
    evaluate = run.sections.get("evaluate")
    items = evaluate.items() if isinstance(evaluate, dict) else ()
    return str([item for item in items if item[0].startswith("newcomer")])


def twins(run: Dossier, runs: Sequence[Dossier]) -> list[Dossier]:
    """Runs that are the same but for an attack, which one of the two has."""
    rest = [k for k in run.sections if k not in (*_HOSTILE, *_ASIDE)]
    mine = _written(run, rest)
    return [
        other
        for other in runs
        if other.finished
        and other.attacked != run.attacked
        and {*rest} == {*other.sections} - {*_HOSTILE, *_ASIDE}
        and _written(other, rest) == mine
        and len(other.column("client")) == len(run.column("client"))
    ]


def _written(run: Dossier, keys: Sequence[str]) -> str:
    """Some sections as one text, to be compared."""
    names = tuple(sorted(keys))
    if names not in run.kept:
        found: dict[str, Any] = {key: run.sections.get(key) for key in names}
        run.kept[names] = json.dumps(found, sort_keys=True, default=str)
    return str(run.kept[names])


def models(world: Sequence[Dossier]) -> list[Model]:
    """The models of a world; a shared model that several runs have counts once.

    It is named after the run that has no other, where there is one.
    """
    found: list[Model] = []
    plain = [run for run in world if run.part("personalizer") == "none"]
    own = [run for run in world if not any(run is p for p in plain)]
    for run in own:
        found.append(_model(run, "personal"))
    of = "the shared model of "
    shared: list[Model] = []
    for run, words in [*((run, "") for run in plain), *((run, of) for run in own)]:
        model = _model(run, "shared", words)
        if not any(_equal(model.values, other.values) for other in shared):
            shared.append(model)
    if len(shared) == 1 and not plain:
        words = "the shared model"
        shared = [shared[0]._replace(label=words, said=words)]
    return [*shared, *found] if plain else [*found, *shared]


def decisions(world: Sequence[Dossier]) -> list[tuple[Model, Model]]:
    """Pairs of models that somebody who must use one has to decide between.

    All pairs of a few models. Of more: every own model beside the shared one of its
    run and beside the local one, and these two.
    """
    every = models(world)
    shared = [m for m in every if m.kind == "shared"]
    own = [m for m in every if m.kind != "shared"]
    local = [m for m in own if m.run.part("personalizer") == "local"]
    rest = [m for m in own if m.run.part("personalizer") != "local"]
    ordered = [*shared, *local, *rest]
    return [
        (a, b)
        for i, a in enumerate(ordered)
        for b in ordered[:i]
        if len(every) <= _FEW or _reference(a, b)
    ]


def _reference(a: Model, b: Model) -> bool:
    """Whether b is what a must be worth the effort against."""
    if b.kind == "shared":
        return _equal(_model(a.run, "shared").values, b.values) and a.kind != "shared"
    return b.run.part("personalizer") == "local"


def _model(run: Dossier, kind: str, words: str = "") -> Model:
    labels = f"{words}{name(run)}", f"{words}{quoted(run)}"
    column = run.metric if kind == "personal" else f"shared_{run.metric}"
    means = run.mean(kind), run.mean(kind, on="valid")
    return Model(run, kind, *labels, run.column(column), *means)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=True))


def paired(a: Model, b: Model, metric: str) -> compare.Paired:
    """Two models over the clients that a summary is about."""
    who = a.run.judged & b.run.judged
    return compare.paired(b.values[who], a.values[who], metric == "accuracy")


def moved(attacked: Dossier, clean: Dossier) -> Moved | None:
    """How far apart two shared models are; None where one cannot be read."""
    try:
        one, two = (files.load(run.path / files.SHARED)[0] for run in (attacked, clean))
        names = [k for k, v in two.items() if v.is_floating_point()]
        pairs = [(one[k].double(), two[k].double()) for k in names]
        broken = sum(not bool(a.isfinite().all()) for a, _ in pairs)
        distance = sum(float((a - b).square().sum()) for a, b in pairs) ** 0.5
        norm = sum(float(b.square().sum()) for _, b in pairs) ** 0.5
    except Exception:  # whatever is wrong with a file, the card goes without
        return None
    return Moved(distance, norm, broken, len(names))
