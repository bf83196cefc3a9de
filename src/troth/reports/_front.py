"""Make the first screen: a sentence with the answer, and numbers of the best model."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from troth.certificates.bounds import down
from troth.evaluation.paired import LEVEL, interval
from troth.reports.cards import Deck, Sentence
from troth.reports.cards._choice import Chooser
from troth.reports.cards._reading import chance, quoted
from troth.reports.cards._worlds import Model, models, paired, twins
from troth.runs.compare import number, signed
from troth.runs.inspect import Dossier


class Tile(NamedTuple):
    """A number of the best model; `file` and `key` name its source, if it has one."""

    head: str
    text: str
    note: str
    file: str = ""
    key: str = ""


def answer(deck: Deck) -> list[Sentence]:
    """Say which model is best, for how many clients, and how sure this is."""
    chooser = Chooser(deck.runs)
    metric = chooser.metric
    if not chooser.models:
        return [("answer.none",)]
    a, *others = chooser.models
    if not others:
        n = str(int((a.run.judged & ~np.isnan(a.values)).sum()))
        return [("answer.only", a.quoted, metric, number(a.mean, metric), n)]
    b = others[0]
    found = paired([(a, b)], metric)
    counts = tuple(map(str, (found.better, found.n, found.worse)))
    words = ("higher", "lower")[:: 1 if metric == "accuracy" else -1]
    first = a.quoted[0].upper() + a.quoted[1:]
    about = (first, b.quoted, *counts, metric, *words)
    ends = [signed(v, metric) for v in (found.mean_difference, found.low, found.high)]
    numbers = (*ends, chance(found.p_value))
    if found.n < 2 or np.isnan(found.low):
        rule = "answer.few"
    elif found.p_value >= LEVEL:
        rule = "answer.unsure"
    else:
        ahead = (found.mean_difference > 0) == (metric == "accuracy")
        rule = "answer.sure" if ahead else "answer.behind"
    return [(rule, *about, *numbers)]


def why(deck: Deck) -> list[Sentence]:
    """Explain how the best model was found, and what the comparison does not show."""
    chooser = Chooser(deck.runs)
    if len(chooser.models) < 2:
        return []
    metric, both = chooser.metric, chooser.models[:2]
    worth = [p for m in both for p in (m.quoted, number(chooser.worth(m), metric))]
    many = str(len(chooser.models))
    if tied := chooser.tied():
        tie = many, chooser.by, metric, *worth[:2], tied, chooser.because()
        return [("answer.tie", *tie), ("answer.seed",)]
    return [("answer.why", many, chooser.by, metric, *worth), ("answer.seed",)]


def tiles(deck: Deck, runs: Sequence[Dossier]) -> list[Tile]:
    """Return up to six numbers of the best model: those that files have."""
    chooser = Chooser(deck.runs)
    if not chooser.models:
        return []
    best, metric = chooser.models[0], chooser.metric
    run, values = best.run, best.values[best.run.judged]
    values = values[~np.isnan(values)]
    mean, half = interval(values)
    ends = [number(v, metric) for v in (mean - half, mean + half)]
    sure = "" if np.isnan(half) else f"95 % interval {ends[0]} to {ends[1]}, "
    found = [
        _kept(best, f"mean {metric}", "mean", f"{sure}{len(values)} benign clients")
    ]
    low = "lowest" if metric == "accuracy" else "highest"
    found.append(_kept(best, "worst tenth", "worst10", f"mean of the {low} tenth"))
    found.append(_kept(best, "spread", "std", "standard deviation over clients"))
    return [*found, *_gain(best, deck), *_attack(run, runs), *_certified(deck, best)][
        :6
    ]


def _kept(model: Model, head: str, what: str, note: str) -> Tile:
    """Return a number of the summary."""
    metric, file = model.run.metric, str(model.run.path / "summary.json")
    text = number(model.run.mean(model.kind, what), metric)
    return Tile(head, text, note, file, f"{model.kind}.{metric}_{what}")


def _gain(best: Model, deck: Deck) -> list[Tile]:
    """Return the mean gain over the shared model, and over local training."""
    metric, parts = best.run.metric, []
    for head, other in references(best, deck).items():
        found = paired([(best, other)], metric)
        ends = [signed(v, metric) for v in (found.low, found.high)]
        sure = "no interval" if np.isnan(found.low) else f"{ends[0]} to {ends[1]}"
        parts.append((head, signed(found.mean_difference, metric), sure))
    if not parts:
        return []
    head, text, sure = parts[0]
    rest = "".join(f"; {gain(metric, h)} {t} ({s})" for h, t, s in parts[1:])
    return [Tile(gain(metric, head), text, f"95 % interval {sure}{rest}")]


def gain(metric: str, other: str = "") -> str:
    """Name the difference from another model; of errors, a lower one is better."""
    if metric == "accuracy":
        return f"gain over {other}" if other else "gain"
    return f"difference in error from {other}" if other else "difference in error"


def references(best: Model, deck: Deck) -> dict[str, Model]:
    """Return what to compare with: the shared model of its run, and the local one."""
    found, every = {}, models(deck.runs)
    column = best.run.column(f"shared_{best.run.metric}")
    for model in every:
        alike = np.array_equal(model.values, column, equal_nan=True)
        if model.kind == "shared" and best.kind != "shared" and alike:
            found["the shared model"] = model
    for model in every:
        local = model.kind == "personal" and model.run.part("personalizer") == "local"
        if local and model.run is not best.run:
            found["training alone"] = model
    return found


def _attack(run: Dossier, runs: Sequence[Dossier]) -> list[Tile]:
    bad, n = int((run.column("malicious") == 1).sum()), len(run.column("client"))
    if not run.attacked:
        return []
    some = f"{bad} of {n}"
    for other in twins(run, runs)[:1]:
        cost = signed(run.mean() - other.mean(), run.metric)
        without = number(other.mean(), run.metric)
        note = f"{some} clients are malicious; without them ({quoted(other)}) {without}"
        return [Tile("effect of the attack", cost, note)]
    note = "all numbers here are under this attack; without it they are not known"
    return [Tile("malicious clients", some, note)]


def _certified(deck: Deck, best: Model) -> list[Tile]:
    """Return the mean certified radius of the best model, or of the first certified."""
    for run in sorted(deck.runs, key=lambda run: run is not best.run):
        kind = "shared" if run.part("personalizer") == "none" else "personal"
        for each in run.certified:
            if curve := each.curves.get(kind):
                s, n = each.settings, len(curve.clients)
                text = down(float(curve.acr.mean()))
                about = f"{s['transform']}, σ = {float(s['sigma']):g}, {each.unit}"
                note = f"{quoted(run)}: mean of {n} clients; {about}"
                return [Tile("certified radius", text, note)]
    return []
