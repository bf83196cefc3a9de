"""Suggest a model to each client.

Because one client has few examples, the suggestion is the model with the best mean over
benign clients. The mean is taken on validation data if all models have results on these
data, and otherwise on test data. If another model is better on the client's own test
examples and the 95 % intervals of the two models do not overlap, that model is
suggested.
"""

from typing import NamedTuple

import numpy as np

from troth.evaluation.paired import LEVEL, Paired
from troth.reports.cards import _reading
from troth.reports.cards._reading import Sentence, command, quoted, saved
from troth.reports.cards._worlds import Model, models, paired
from troth.runs.compare import number, signed
from troth.runs.inspect import Dossier


class Choice(NamedTuple):
    """The suggestion for one client."""

    model: Model | None  # None: no suggestion
    why: str  # template of the sentence that explains it
    sentences: list[Sentence]


class Chooser:
    """Chooses a model for each client from the models of a group of runs."""

    def __init__(self, world: list[Dossier]) -> None:
        self.metric = world[0].metric
        self._sign, self._first, self._more = (
            (1, "highest", "more")
            if self.metric == "accuracy"
            else (-1, "lowest", "less")
        )
        known = [m for m in models(world) if not np.isnan(m.mean)]
        by_valid = known and not np.isnan([m.valid for m in known]).any()
        self.by = "validation" if by_valid else "test"
        self.models = sorted(known, key=lambda m: -self._sign * self.worth(m))
        self._run = world[0]
        every = self.models[0].values if self.models else np.full(1, np.nan)
        self._benign = int((world[0].judged & ~np.isnan(every)).sum())
        self.sure = self._certainty()

    def worth(self, model: Model) -> float:
        """Return the mean, on validation or test data, by which models are ranked.

        It is rounded so that the order in which values were summed does not count.
        """
        mean = model.valid if self.by == "validation" else model.mean
        return float(f"{mean:.12g}")

    def tied(self) -> str:
        """Name the other models whose mean is printed like that of the first model."""
        first, *others = (number(self.worth(m), self.metric) for m in self.models)
        pairs = zip(self.models[1:], others, strict=True)
        return " and ".join(m.quoted for m, text in pairs if text == first)

    def because(self) -> str:
        """Say why the first model is chosen and not one that is tied with it."""
        first, second = (self.worth(m) for m in self.models[:2])
        if first == second:
            return "is the first of these in the list of models"
        return f"has the {self._first} mean before rounding"

    def _certainty(self) -> list[Sentence]:
        """Compare the best model with the second best over all benign clients."""
        if len(self.models) < 2:
            return []
        a, b = self.models[:2]
        found = paired([(a, b)], self.metric)
        if found.n < 2:
            return [("choice.few", a.quoted, b.quoted, str(found.n))]
        far = number(abs(found.mean_difference), self.metric)
        way = "less" if found.mean_difference < 0 else "more"
        counts = (found.n, found.better, found.worse, found.equal)
        ends = tuple(signed(v, self.metric) for v in (found.low, found.high))
        rule, p = _verdict(found, self._sign), _reading.chance(found.p_value)
        sure = far, f"{way} {self.metric}", *map(str, counts), p
        ends = () if rule == "choice.sign" else ends
        return [(rule, a.quoted, b.quoted, *sure, *ends)]

    def choose(self, i: int) -> Choice:
        """Choose for the client in row i."""
        assert self._run.clients is not None
        client = str(int(self._run.clients["client"][i]))
        if self._run.clients["malicious"][i] == 1 or not self.models:
            return Choice(None, "hostile", [("choice.hostile", client)])
        first = self.models[0]
        mean = number(self.worth(first), self.metric)
        if len(self.models) == 1:
            only = (first.quoted, client, self.metric, self.by, str(self._benign), mean)
            return self._with(first, "only", [("choice.only", *only)], client)
        other = self._ahead(i)
        limits = [] if other is None else self._limits(i, other)
        if other is not None and limits and limits[0] > limits[3]:
            mine = self._numbers(other.values[i], *limits[:2])
            its = self._numbers(first.values[i], *limits[2:])
            size = str(int(self._run.column("test")[i]))
            own = other.quoted, client, size, *mine, first.quoted, *its
            return self._with(other, "own", [("choice.own", *own)], client)
        second, many, benign = self.models[1], str(len(self.models)), str(self._benign)
        average: Sentence = (
            *("choice.average", first.quoted, client, many),
            *(self._first, self.metric, self.by, benign, mean),
            *(second.quoted, number(self.worth(second), self.metric)),
        )
        if tied := self.tied():
            about = self.by, benign, self.metric, mean, tied, many, self._more
            average = ("choice.tie", first.quoted, client, *about, self.because())
        lines = [average, *self.sure, self._locally(i, client, other, limits)]
        return self._with(first, "average", lines, client)

    def _with(
        self, model: Model, why: str, lines: list[Sentence], client: str
    ) -> Choice:
        run = model.run
        use = _use(model, client)
        if model.kind == "personal":
            lines = [*lines, ("choice.what", quoted(run), _reading.plainly(run))]
            use = use if saved(run) else [("choice.unsaved", _reading.keeping(run))]
        return Choice(model, why, [*lines, *use])

    def _ahead(self, i: int) -> Model | None:
        """Return the best model on this client's test data, if it is another one.

        Return None if no model is better than the one with the best mean over clients.
        """
        worth = [self._sign * m.values[i] for m in self.models]
        if np.isnan(worth[0]) or not max(v for v in worth if v == v) > worth[0]:
            return None
        return self.models[int(np.nanargmax(worth))]

    def _limits(self, i: int, other: Model) -> list[float]:
        """Return the ends of two 95 % intervals on this client's test data.

        The interval of `other` comes first, then that of the first model. The list is
        empty if the values have no intervals.
        """
        size = int(self._run.column("test")[i])
        both = [float(m.values[i]) for m in (other, self.models[0])]
        mine, its = (_reading.proportion(self._run, value, size) for value in both)
        return [*mine, *its] if mine and its else []

    def _numbers(self, *values: float) -> list[str]:
        return [number(float(v), self.metric) for v in values]

    def _locally(
        self, i: int, client: str, other: Model | None, limits: list[float]
    ) -> Sentence:
        """Describe how the model with the best mean does on the client's test data."""
        first, value = self.models[0], float(self.models[0].values[i])
        if np.isnan(value):
            return ("choice.untested", client)
        size = str(int(self._run.column("test")[i]))
        (has,) = self._numbers(value)
        if other is not None:
            (mine,) = self._numbers(other.values[i])
            both = (size, client, other.quoted, mine, first.quoted, has)
            rule = "choice.chance" if limits else "choice.differs"
            return (rule, *both, *self._numbers(*limits))
        equal = " and ".join(m.quoted for m in self.models[1:] if m.values[i] == value)
        if equal:
            return ("choice.equal", size, client, has, equal, self._more)
        return ("choice.agrees", size, client, has, self._more)


def _verdict(found: Paired, sign: int) -> str:
    """Return the sentence template for the outcome of a comparison.

    `sign` is 1 if larger values are better, and otherwise −1.
    """
    if np.isnan(found.low):
        return "choice.sign"
    if found.p_value >= LEVEL:
        return "choice.unsure"
    return "choice.sure" if found.mean_difference * sign > 0 else "choice.behind"


def _use(model: Model, client: str) -> list[Sentence]:
    """Describe how to predict with a model, and which data it takes."""
    run, shape = model.run, model.run.resolved.get("shape")
    sizes = ", ".join(map(str, shape)) if isinstance(shape, list) else "…"
    if model.kind == "shared" and run.part("personalizer") != "none":
        module = f"{_reading.loaded(run, 'model')}.shared({client})"
        return [("choice.command", module), ("choice.module", sizes)]
    table = bool(run.resolved.get("features"))
    if _reading.from_memory(run):
        call = f"{_reading.loaded(run, 'model')}.predict({client}, X)"
        names = [("choice.columns",)] if table else []
        return [("choice.command", call), ("choice.array", sizes), *names]
    file = "FILE.csv" if table else "FILE.npz"
    given = command("predict", run.path, "--client", client, "--data", file)
    holds = ("choice.table",) if table else ("choice.npz", sizes)
    return [("choice.command", given), holds]
