"""Group runs with the same clients, and compare runs that differ by an attack."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from troth import files
from troth.evaluation.paired import Paired
from troth.reports.cards import _reading
from troth.reports.cards._reading import Sentence, again, beside, name, quoted
from troth.runs import compare
from troth.runs.compare import number, signed
from troth.runs.inspect import Dossier

_CLIENTS = ("data", "partition", "availability")
_HOSTILE = ("adversary", "attack", "corruption")
_FEW = 5  # up to so many models, all pairs are compared
_ASIDE = ("name", "resolved", "engine", "checkpoint", "output")  # not compared


class Model(NamedTuple):
    """A model that every client of a group of runs could use."""

    run: Dossier
    kind: str  # personal or shared
    label: str
    quoted: str  # the label with quotation marks, for sentences
    values: np.ndarray  # [n] the metric of each client on its test data
    mean: float  # mean over benign clients on test data
    valid: float  # the same on validation data; NaN without such data


class Moved(NamedTuple):
    """How an attack changed the shared model."""

    distance: float  # ‖w − w_clean‖₂
    norm: float  # ‖w_clean‖₂
    broken: int  # tensors that are not finite
    tensors: int


def worlds(runs: Sequence[Dossier]) -> list[list[Dossier]]:
    """Group finished runs by data, partition, availability, seed and attack.

    A client may choose from the models of one group.
    """
    found: dict[str, list[Dossier]] = {}
    for run in runs:
        if run.finished:
            found.setdefault(f"{federation(run)} {run.part('seed')}", []).append(run)
    return list(found.values())


def federation(run: Dossier) -> str:
    """Return what runs of one group have in common, except for the seed, as text."""
    about = run.metric, len(run.column("client")), _late(run)
    return f"{_written(run, (*_CLIENTS, *_HOSTILE))} {about}"


def _late(run: Dossier) -> str:
    """Return the settings on newcomers as text, for comparison."""
    evaluate = run.sections.get("evaluate")
    items = evaluate.items() if isinstance(evaluate, dict) else ()
    return str([item for item in items if item[0].startswith("newcomer")])


def twins(run: Dossier, runs: Sequence[Dossier]) -> list[Dossier]:
    """Return the finished runs that differ from this run only in the attack.

    Of the two runs, one is attacked and the other is not.
    """
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
    """Return the named sections as one text, to compare runs by."""
    names = tuple(sorted(keys))
    if names not in run.kept:
        sections = {key: run.sections.get(key) for key in names}
        run.kept[names] = json.dumps(sections, sort_keys=True, default=str)
    return str(run.kept[names])


def models(world: Sequence[Dossier]) -> list[Model]:
    """Return the models of a group of runs; equal shared models count once.

    If the group has a run without a personalizer that trains the same shared model, the
    shared model is labeled with the name of that run.
    """
    plain = [run for run in world if run.part("personalizer") == "none"]
    own = [run for run in world if run.part("personalizer") != "none"]
    personal = [_model(run, "personal") for run in own]
    of, shared = "the shared model of ", list[Model]()
    for run, words in [*((run, "") for run in plain), *((run, of) for run in own)]:
        model = _model(run, "shared", words)
        if not any(_same(model, other) for other in shared):
            shared.append(model)
    if len(shared) == 1 and not plain:
        words = "the shared model"
        shared = [shared[0]._replace(label=words, quoted=words)]
    return [*shared, *personal] if plain else [*personal, *shared]


def decisions(world: Sequence[Dossier]) -> list[tuple[Model, Model]]:
    """Return the pairs of models to compare.

    Up to 5 models, these are all pairs. With more models, every personal model is
    compared with the shared model of its run and with the local model, and the local
    model is compared with the shared one.
    """
    kinds = ("shared", "local", "personal")
    ordered = sorted(models(world), key=lambda m: kinds.index(_kind(m)))
    return [
        (a, b)
        for i, a in enumerate(ordered)
        for b in ordered[:i]
        if len(ordered) <= _FEW or _reference(a, b)
    ]


def _kind(m: Model) -> str:
    """Return the kind of a model: shared, local or personal."""
    local = m.kind == "personal" and m.run.part("personalizer") == "local"
    return "local" if local else m.kind


def _reference(a: Model, b: Model) -> bool:
    """Return whether b is a baseline of a: its shared model, or local training."""
    if b.kind == "shared":
        return a.kind != "shared" and _same(_model(a.run, "shared"), b)
    return _kind(b) == "local"


def _model(run: Dossier, kind: str, words: str = "") -> Model:
    labels = f"{words}{name(run)}", f"{words}{quoted(run)}"
    column = run.metric if kind == "personal" else f"shared_{run.metric}"
    means = run.mean(kind), run.mean(kind, on="valid")
    return Model(run, kind, *labels, run.column(column), *means)


def _same(a: Model, b: Model) -> bool:
    return bool(np.array_equal(a.values, b.values, equal_nan=True))


def paired(both: Sequence[tuple[Model, Model]], metric: str) -> Paired:
    """Compare two models, a minus b, over the clients that summaries cover.

    Args:
        both: the models a and b of each seed.
        metric: accuracy or error.
    """
    values = [
        np.where(model.run.judged, model.values, np.nan)
        for each in ([b for _, b in both], [a for a, _ in both])
        for model in each
    ]
    return compare.over_seeds(values, metric)


def moved(attacked: Dossier, clean: Dossier) -> Moved | None:
    """Measure the distance between two shared models; None if one cannot be read."""
    try:
        one, two = (files.load(run.path / files.SHARED)[0] for run in (attacked, clean))
        names = [k for k, v in two.items() if v.is_floating_point()]
        pairs = [(one[k].double(), two[k].double()) for k in names]
        broken = sum(not bool(a.isfinite().all()) for a, _ in pairs)
        distance = sum(float((a - b).square().sum()) for a, b in pairs) ** 0.5
        norm = sum(float(b.square().sum()) for _, b in pairs) ** 0.5
    except Exception:  # without these files, the card leaves the sentence out
        return None
    return Moved(distance, norm, broken, len(names))


_MOST = 5  # attacks that a card compares with, at most


class Exposure(NamedTuple):
    """A run, and the runs that differ from it only in the attack."""

    run: Dossier
    others: list[tuple[Dossier, Moved | None]]

    def describe(self, i: int) -> tuple[Any, list[Sentence]]:
        """Return facts and sentences about the client in row i."""
        run, metric = self.run, self.run.metric
        value = float(run.column(metric)[i])
        every, bad = run.column("client").size, int(run.column("malicious").sum())
        facts: dict[str, Any] = {"hostile": bad, "clients": every}
        facts |= {"attack": run.part("attack"), "corruption": run.part("corruption")}
        facts["aggregator"] = run.part("aggregator")
        # the model of a client that trains alone does not depend on the federation
        alone = run.part("personalizer") == "local"
        mine = bool(run.column("malicious")[i])
        if run.attacked:
            who = f"{bad}", f"{every}", _reading.hostility(run)
            has = (metric, number(value, metric))
            rule = f"aggregator {run.part('aggregator')}"
            lines: list[Sentence] = [("poisoning.under", *who, rule, *has)]
            lines = [("poisoning.apart", *who, *has)] if alone and not mine else lines
        elif bad:
            lines = [("poisoning.idle", f"{bad}", f"{every}")]
        else:
            lines = [("poisoning.clean", f"{every}")]
        if mine:
            lines.append(("poisoning.one", f"{int(run.column('client')[i])}"))
        facts["beside"] = [self._beside(i, *other, lines) for other in self.others]
        if not self.others and not alone:
            rule = "poisoning.no_twin" if run.attacked else "poisoning.try"
            place, asks = _asks(run)
            lines += [(rule, asks), ("poisoning.both", beside(run, place))]
        return facts, lines

    def _beside(
        self, i: int, other: Dossier, far: Moved | None, lines: list[Sentence]
    ) -> dict[str, Any]:
        run, metric = self.run, self.run.metric
        mine, its = (float(each.column(metric)[i]) for each in (run, other))
        attacked, clean = (mine, its) if run.attacked else (its, mine)
        pair = (other, run) if run.attacked else (run, other)
        means = [each.mean() for each in pair]
        went = [number(mean, metric) for mean in means]
        cost = signed(attacked - clean, metric)
        has = [number(clean, metric), number(attacked, metric), cost]
        rule, has = (
            ("poisoning.without", has)
            if run.attacked
            else ("poisoning.within", [*has[1:], has[0]])
        )
        lines.append((rule, quoted(other), *has, *went))
        if far is not None and far.broken:
            lines.append(("poisoning.broke", f"{far.broken}", f"{far.tensors}"))
        elif far is not None:
            share = f"{far.distance / far.norm:.4g}" if far.norm else "–"
            lines.append(("poisoning.moved", f"{far.distance:.4g}", share))
        facts = {"run": other.label, "clean": clean, "attacked": attacked}
        facts |= {"mean_clean": means[0], "mean_attacked": means[1]}
        facts["moved"] = np.nan if far is None or far.broken else far.distance
        facts["norm"] = np.nan if far is None else far.norm
        return facts


def exposure(run: Dossier, runs: Sequence[Dossier]) -> Exposure:
    """Find the runs that differ from this run only in the attack."""
    some = twins(run, runs)[: 1 if run.attacked else _MOST]
    pairs = [(run, other) if run.attacked else (other, run) for other in some]
    return Exposure(run, [(o, moved(*p)) for o, p in zip(some, pairs, strict=True)])


def _asks(run: Dossier) -> tuple[str, str]:
    """Return a new folder, and the command that trains the missing run there.

    For an attacked run, the missing run is the one without the attack, and vice versa.
    """
    if run.attacked:
        return again(run, "no-attack", "attack=none", "corruption=none")
    bad = () if run.column("malicious").any() else ("adversary.fraction=0.2",)
    if run.resolved.get("classes"):
        return again(run, "attacked", *bad, "corruption=auto")
    # a regression has no classes, so labels cannot be swapped
    return again(run, "attacked", *bad, "corruption=none", "attack=sign_flip")
