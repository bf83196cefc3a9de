"""The summary in words: rules and their values, as on the cards."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from troth.cards import Deck, Said
from troth.cards._choice import Chooser
from troth.cards._reading import change, command, name, told
from troth.cards._rules import RULES as CARD_RULES
from troth.cards._worlds import twins
from troth.certificates.bounds import down
from troth.dossier import Dossier

_VERDICTS = {"dropped": "dropped", "clipped": "clipped", "downweighted": "weighed down"}
_NAMED, _WORLDS, _LINES = 6, 6, 20  # that are put into words

RULES = {
    "page.runs": "Runs: {0}. Finished: {1}.",
    "page.going": "{0} is going on: its journal holds {1} of {2} rounds.",
    "page.unfinished": "{0} is not finished: its journal holds {1} of {2} rounds. Go "
    "on with it by: {3}",
    "page.worlds": "The runs are about {0} federations, which differ in data, clients, "
    "seed or attack; the first {1} are put into words here.",
    "page.more": "And {0} sentences more of this kind; the tables below have all.",
    "page.world": "Runs {0}: {1} clients hold {2}, {3} of them are hostile (attack "
    "{4}, corruption {5}). Means are over {6} benign clients, each on its own test "
    "data.",
    "page.peaceful": "Runs {0}: {1} clients hold {2}, 0 of them are hostile. Means are "
    "over {3} clients, each on its own test data.",
    "page.first": "First by the mean on {0} data is {1} ({2}). On test data: mean {3} "
    "{4}, standard deviation {5}, worst tenth {6}.",
    "page.shared": "The shared model of {0}, on test data: mean {1} {2}, standard "
    "deviation {3}, worst tenth {4}.",
    "page.attack": "Attacks change the mean {1} of {0} by {2}: {3}, and {4} where "
    "nobody attacks ({5}).",
    "page.verdicts": "{0}: {1} reports of hostile and {2} of benign clients were {3}.",
    "page.stayed": "{0}: the shared model stayed as it was in {1} of {2} rounds, last "
    "since {3}.",
    "page.newcomers": "{0}: {1} newcomers, who never took part, have mean {2} {3}, "
    "with the shared model {4}.",
    "page.certified": "{0}, {1} with σ = {2}: the mean certified radius ({3}) is {4}, "
    "over {5} clients.",
    "page.audited": "{0}: of {1} audited clients {2} changed by more than {3} for "
    "sure, {4} did not, {5} are open.",
    "page.uncertified": "Nothing is proven of any model here; get it by: {0}",
    "page.unaudited": "What the models rely on was not looked at; do it by: {0}",
    "page.trouble": "{0}",
}
EVERY = CARD_RULES | RULES


def text(said: Said) -> str:
    """The sentence of a rule of the page or of a card."""
    return re.sub(r"\{(\d+)\}", lambda at: said[1 + int(at[1])], EVERY[said[0]])


def summary(runs: Sequence[Dossier], decks: Sequence[Deck]) -> list[list[Said]]:
    """What there is to say: of all, of runs of the same clients, of single runs."""
    done = sum(run.finished for run in runs)
    first: list[Said] = [("page.runs", str(len(runs)), str(done))]
    for run in runs:
        first += [] if run.finished else _unfinished(run)
        first += [("page.trouble", trouble) for trouble in run.troubles]
    if len(decks) > _WORLDS:
        first.append(("page.worlds", str(len(decks)), str(_WORLDS)))
    found = [first, *(_world(deck, runs) for deck in decks[:_WORLDS])]
    happened = [each for run in runs if run.finished for each in _happened(run)]
    if len(happened) > _LINES:
        more = str(len(happened) - _LINES)
        happened = [*happened[:_LINES], ("page.more", more)]
    return [part for part in (*found, happened, _missing(runs)) if part]


def _world(deck: Deck, runs: Sequence[Dossier]) -> list[Said]:
    first = deck.runs[0]
    metric, n = first.metric, len(deck.ids)
    names = ", ".join(name(run) for run in deck.runs[:_NAMED])
    more = len(deck.runs) - _NAMED
    names += f" and {more} more" if more > 0 else ""
    values = first.column(metric)
    benign = int((first.judged & ~np.isnan(values)).sum())
    hostile = int(first.column("malicious").sum())
    about = (names, str(n), first.part("data"))
    if hostile:
        ways = first.part("attack"), first.part("corruption")
        said: list[Said] = [("page.world", *about, str(hostile), *ways, str(benign))]
    else:
        said = [("page.peaceful", *about, str(benign))]
    chooser = Chooser(deck.runs)
    if chooser.models:
        best = chooser.models[0]
        worth = chooser.by, best.label, told(chooser.worth(best), metric)
        said.append(("page.first", *worth, *_numbers(best.run, best.kind)))
        said += chooser.sure
        if best.kind != "shared":
            said.append(("page.shared", name(best.run), *_numbers(best.run, "shared")))
    for run in deck.runs:
        said += _attack(run, runs)
    return said


def _numbers(run: Dossier, kind: str) -> list[str]:
    metric = run.metric
    parts = (run.mean(kind, what) for what in ("mean", "std", "worst10"))
    return [metric, *(told(v, metric) for v in parts)]


def _attack(run: Dossier, runs: Sequence[Dossier]) -> list[Said]:
    beside = twins(run, runs) if run.attacked else []
    metric, mine = run.metric, run.mean()
    return [
        (
            *("page.attack", name(run), metric, change(mine - other.mean(), metric)),
            *(told(mine, metric), told(other.mean(), metric), name(other)),
        )
        for other in beside[:1]
    ]


def _unfinished(run: Dossier) -> list[Said]:
    if not run.sections:
        return []
    far = str(len(run.rounds)), str(run.total)
    if run.alive:  # to resume it now would be two at the same files
        return [("page.going", name(run), *far)]
    return [("page.unfinished", name(run), *far, command("resume", run.path))]


def _happened(run: Dossier) -> list[Said]:
    """What rules did, newcomers, certificates, audits."""
    assert run.summary is not None
    label, metric, hostile = name(run), run.metric, run.column("malicious") == 1
    said: list[Said] = []
    for column, word in _VERDICTS.items():
        counts = np.nan_to_num(run.column(column)).astype(int)
        if counts.any():
            apart = (str(counts[who].sum()) for who in (hostile, ~hostile))
            said.append(("page.verdicts", label, *apart, word))
    why = [r.get("why") for r in run.rounds if r.get("stayed")]
    if why:
        total = str(run.summary.get("rounds", run.total))
        said.append(("page.stayed", label, str(len(why)), total, str(why[-1])))
    if "newcomers" in run.summary:
        late = str(int(run.column("newcomer").sum()))
        both = (run.mean(kind) for kind in ("newcomers", "newcomers_shared"))
        own, shared = (told(v, metric) for v in both)
        said.append(("page.newcomers", label, late, metric, own, shared))
    return [*said, *_certified(run), *_audited(run)]


def _certified(run: Dossier) -> list[Said]:
    kind = "shared" if run.part("personalizer") == "none" else "personal"
    said: list[Said] = []
    for each in run.certified:
        curve = each.curves.get(kind)
        if curve is not None:
            s, n = each.settings, str(len(curve.clients))
            about = s["transform"], f"{float(s['sigma']):g}", each.unit
            radius = down(float(curve.acr.mean()))
            said.append(("page.certified", name(run), *about, radius, n))
    return said


def _audited(run: Dossier) -> list[Said]:
    if run.audit is None:
        return []
    suspect = run.audit.table["suspect"]
    three = [(suspect == 1).sum(), (suspect == 0).sum(), np.isnan(suspect).sum()]
    above, below, open_ = (str(v) for v in three)
    limit = f"{float(run.audit.settings['limit']):g}"
    return [("page.audited", name(run), str(len(suspect)), above, limit, below, open_)]


def _missing(runs: Sequence[Dossier]) -> list[Said]:
    """The two examinations, where nobody has made them."""
    able = [run for run in runs if run.finished and run.resolved.get("classes")]
    own = [run for run in able if run.part("personalizer") != "none"]
    said: list[Said] = []
    if able and not any(run.certified for run in runs):
        asks = command("certify", able[-1].path)
        said.append(("page.uncertified", asks))
    if own and not any(run.audit for run in runs):
        said.append(("page.unaudited", command("audit", own[-1].path)))
    return said
