"""What an attack does to one client, by runs with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from troth.reports.cards._reading import again, beside, change, hostility, quoted, told
from troth.reports.cards._rules import Said
from troth.reports.cards._worlds import Moved, moved, twins
from troth.runs.inspect import Dossier

_MOST = 5  # attacks of which a card speaks


class Exposure(NamedTuple):
    """A run beside those that differ by an attack alone."""

    run: Dossier
    others: list[tuple[Dossier, Moved | None]]

    def said(self, i: int) -> tuple[Any, list[Said]]:
        """Of the client in row i."""
        run, metric = self.run, self.run.metric
        value = float(run.column(metric)[i])
        every, hostile = run.column("client").size, int(run.column("malicious").sum())
        facts: dict[str, Any] = {"hostile": hostile, "clients": every}
        facts |= {"attack": run.part("attack"), "corruption": run.part("corruption")}
        facts["aggregator"] = run.part("aggregator")
        alone = run.part("personalizer") == "local"  # it never met the federation
        mine = bool(run.column("malicious")[i])
        if run.attacked:
            who = f"{hostile}", f"{every}", hostility(run)
            has = (metric, told(value, metric))
            rule = f"aggregator {run.part('aggregator')}"
            said: list[Said] = [("poisoning.under", *who, rule, *has)]
            if alone and not mine:
                said = [("poisoning.apart", *who, *has)]
        elif hostile:
            said = [("poisoning.idle", f"{hostile}", f"{every}")]
        else:
            said = [("poisoning.clean", f"{every}")]
        if mine:
            said.append(("poisoning.one", f"{int(run.column('client')[i])}"))
        facts["beside"] = [self._beside(i, *other, said) for other in self.others]
        if not self.others and not alone:
            rule = "poisoning.no_twin" if run.attacked else "poisoning.try"
            place, asks = _asks(run)
            said += [(rule, asks), ("poisoning.both", beside(run, place))]
        return facts, said

    def _beside(
        self, i: int, other: Dossier, far: Moved | None, said: list[Said]
    ) -> dict[str, Any]:
        run, metric = self.run, self.run.metric
        mine, its = (float(each.column(metric)[i]) for each in (run, other))
        attacked, clean = (mine, its) if run.attacked else (its, mine)
        means = [
            each.mean() for each in ((other, run) if run.attacked else (run, other))
        ]
        went = [told(mean, metric) for mean in means]
        cost = change(attacked - clean, metric)
        if run.attacked:
            has = told(clean, metric), told(attacked, metric), cost
            said.append(("poisoning.without", quoted(other), *has, *went))
        else:
            has = told(attacked, metric), cost, told(clean, metric)
            said.append(("poisoning.within", quoted(other), *has, *went))
        if far is not None and far.broken:
            said.append(("poisoning.broke", f"{far.broken}", f"{far.tensors}"))
        elif far is not None:
            share = f"{far.distance / far.norm:.4g}" if far.norm else "–"
            said.append(("poisoning.moved", f"{far.distance:.4g}", share))
        facts = {"run": other.label, "clean": clean, "attacked": attacked}
        facts |= {"mean_clean": means[0], "mean_attacked": means[1]}
        lost = far is None or bool(far.broken)
        facts["moved"] = np.nan if far is None or lost else far.distance
        facts["norm"] = np.nan if far is None else far.norm
        return facts


def exposure(run: Dossier, runs: Sequence[Dossier]) -> Exposure:
    """This run, and what there is to compare it with."""
    found = []
    for other in twins(run, runs)[: 1 if run.attacked else _MOST]:
        pair = (run, other) if run.attacked else (other, run)
        found.append((other, moved(*pair)))
    return Exposure(run, found)


def _asks(run: Dossier) -> tuple[str, str]:
    """A new folder, and the command that would tell."""
    if not run.attacked:
        hostile = run.column("malicious").any()
        way = ("corruption=auto",) if run.resolved.get("classes") else _REPORTS
        more = way if hostile else ("adversary.fraction=0.2", *way)
        return again(run, "attacked", *more)
    return again(run, "no-attack", "attack=none", "corruption=none")


_REPORTS = ("corruption=none", "attack=sign_flip")  # numbers are no labels to falsify
