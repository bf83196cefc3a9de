"""Write the summary of the page in sentences."""

from collections.abc import Sequence

import numpy as np

from troth.certificates.bounds import down
from troth.certificates.spread import spread
from troth.reports.cards import Deck, Sentence
from troth.reports.cards._choice import Chooser
from troth.reports.cards._reading import certify, command, hostility, listed, quoted
from troth.reports.cards._worlds import twins
from troth.runs.compare import number, signed
from troth.runs.inspect import Dossier

_VERDICTS = ("dropped", "clipped", "downweighted")
_WORLDS, _LINES = 6, 20  # groups of runs and sentences in the summary, at most


def summary(runs: Sequence[Dossier], decks: Sequence[Deck]) -> list[list[Sentence]]:
    """Summarize all runs, then groups of runs with the same clients, then each run."""
    done = sum(run.finished for run in runs)
    first: list[Sentence] = [("page.runs", str(len(runs)), str(done))]
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


def _world(deck: Deck, runs: Sequence[Dossier]) -> list[Sentence]:
    first, chooser = deck.runs[0], Chooser(deck.runs)
    metric, values = first.metric, first.column(first.metric)
    benign = int((first.judged & ~np.isnan(values)).sum())
    about = named(deck.runs), str(len(deck.ids)), first.part("data"), str(benign)
    lines: list[Sentence] = [("page.world", *about), *_marked(deck.runs)]
    if chooser.models:
        best = chooser.models[0]
        worth = chooser.by, best.quoted, number(chooser.worth(best), metric)
        lines.append(("page.first", *worth, *_numbers(best.run, best.kind)))
        lines += chooser.sure
        if best.kind != "shared":
            shared = _numbers(best.run, "shared")
            lines.append(("page.shared", quoted(best.run), *shared))
    for run in deck.runs:
        lines += _attack(run, runs)
    return lines


def named(runs: Sequence[Dossier], most: int = 6) -> str:
    """List the names of at most `most` runs, and the number of further runs."""
    more = f" and {len(runs) - most} more" if len(runs) > most else ""
    return ", ".join(quoted(run) for run in runs[:most]) + more


def _marked(runs: Sequence[Dossier]) -> list[Sentence]:
    """Name the malicious clients, and the runs whose server detected none of them."""
    bad = np.flatnonzero(runs[0].column("malicious") == 1)
    n = str(len(runs[0].column("client")))
    if not len(bad):
        return [("page.peaceful", n)]
    who = str(len(bad)), n, listed(bad), hostility(runs[0])
    every = (*_VERDICTS, "chosen")
    blind = [r for r in runs if not any(np.nansum(r.column(v)) for v in every)]
    undetected: list[Sentence] = [("page.undetected", named(blind))]
    return [("page.marked", *who), *(undetected if blind else [])]


def _numbers(run: Dossier, kind: str) -> list[str]:
    parts = (run.mean(kind, what) for what in ("mean", "std", "worst10"))
    return [run.metric, *(number(v, run.metric) for v in parts)]


def _attack(run: Dossier, runs: Sequence[Dossier]) -> list[Sentence]:
    others = twins(run, runs)[:1] if run.attacked else []
    metric, alone = run.metric, run.part("personalizer") == "local"
    lines: list[Sentence] = []
    for other in others:
        has = quoted(run), metric, number(run.mean(), metric)
        without = quoted(other), number(other.mean(), metric)
        cost = signed(run.mean() - other.mean(), metric)
        one: Sentence = ("page.attack", *has, *without, cost)
        lines.append(("page.apart", *has, *without) if alone else one)
    return lines


def _unfinished(run: Dossier) -> list[Sentence]:
    if not run.sections:
        return []
    far = str(len(run.rounds)), str(run.total)
    if run.alive:  # do not suggest to resume a run that is still training
        return [("page.going", quoted(run), *far)]
    return [("page.unfinished", quoted(run), *far, command("resume", run.path))]


def _happened(run: Dossier) -> list[Sentence]:
    """Describe what happened in a run: verdicts, newcomers, certificates and audits."""
    assert run.summary is not None
    label, metric, attackers = quoted(run), run.metric, run.column("malicious") == 1
    lines: list[Sentence] = []
    for verdict in _VERDICTS:
        counts = np.nan_to_num(run.column(verdict)).astype(int)
        if counts.any():
            bad, good = _fell(counts, attackers), _fell(counts, ~attackers)
            lines.append(("page.verdicts", label, bad[0], verdict, bad[1], *good))
    lines += _chosen(run, attackers)
    why = [r.get("why") for r in run.rounds if r.get("stayed")]
    if why:
        total = str(run.summary.get("rounds", run.total))
        lines.append(("page.stayed", label, str(len(why)), total, str(why[-1])))
    if "newcomers" in run.summary:
        late = str(int(run.column("newcomer").sum()))
        both = (run.mean(kind) for kind in ("newcomers", "newcomers_shared"))
        own, shared = (number(v, metric) for v in both)
        lines.append(("page.newcomers", label, late, metric, own, shared))
    return [*lines, *_certified(run), *_audited(run)]


def _chosen(run: Dossier, attackers: np.ndarray) -> list[Sentence]:
    """Count how often the server chose updates of malicious and of benign clients."""
    chosen, asked = (np.nan_to_num(run.column(k)) for k in ("chosen", "asked"))
    if not chosen.any() or not attackers.any():
        return []
    both = [(chosen[who].sum(), asked[who].sum()) for who in (attackers, ~attackers)]
    return [("page.chosen", quoted(run), *(f"{v:.0f}" for pair in both for v in pair))]


def _fell(counts: np.ndarray, who: np.ndarray) -> tuple[str, str]:
    """Count the verdicts on the clients `who`, and list the clients that have any."""
    return str(counts[who].sum()), listed(np.flatnonzero(who & (counts > 0)))


def _certified(run: Dossier) -> list[Sentence]:
    kind = "shared" if run.part("personalizer") == "none" else "personal"
    lines: list[Sentence] = []
    for each in run.certified:
        if curve := each.curves.get(kind):
            s, n = each.settings, str(len(curve.clients))
            about = s["transform"], f"{float(s['sigma']):g}", each.unit
            radius = down(float(curve.acr.mean()))
            apart = float(spread(curve.acr, curve.acr_noise))
            words = "not known" if np.isnan(apart) else f"{apart:.3f}"
            lines.append(("page.certified", quoted(run), *about, radius, n, words))
    return lines


def _audited(run: Dossier) -> list[Sentence]:
    if run.audit is None:
        return []
    suspect, limit = run.audit.table["suspect"], float(run.audit.settings["limit"])
    three = [(suspect == 1).sum(), (suspect == 0).sum(), np.isnan(suspect).sum()]
    above, *others = map(str, three)
    many = str(len(suspect))
    return [("page.audited", quoted(run), many, above, f"{limit:g}", *others)]


def _missing(runs: Sequence[Dossier]) -> list[Sentence]:
    """Suggest to certify or audit a run if there are no certificates or audits."""
    able = [run for run in runs if run.finished and run.resolved.get("classes")]
    own = [run for run in able if run.part("personalizer") != "none"]
    lines: list[Sentence] = []
    if able and not any(run.certified for run in runs):
        lines.append(("page.uncertified", certify(able[-1])))
    if own and not any(run.audit for run in runs):
        lines.append(("page.unaudited", command("audit", own[-1].path)))
    return lines
