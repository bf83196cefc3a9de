"""Write the sentences of the page: above its parts, and what needs attention."""

from collections.abc import Callable, Sequence

import numpy as np

from troth.certificates.bounds import down
from troth.certificates.spread import spread
from troth.reports.cards import Deck, Sentence
from troth.reports.cards._reading import hostility, listed, quoted, resume
from troth.reports.cards._worlds import twins
from troth.runs.compare import number, short, signed
from troth.runs.inspect import Dossier

VERDICTS = ("dropped", "clipped", "downweighted")
_LINES = 12  # sentences above one part, at most


def alerts(runs: Sequence[Dossier]) -> list[Sentence]:
    """List the runs that are not finished, and the files that cannot be read."""
    lines: list[Sentence] = []
    done = sum(run.finished for run in runs)
    if done < len(runs) and len(runs) > 1:
        lines.append(("page.runs", str(len(runs)), str(done)))
    if not done:
        lines.append(("answer.unfinished",))
    for run in runs:
        lines += [] if run.finished else _unfinished(run)
        lines += [("page.trouble", trouble) for trouble in run.troubles]
    return lines


def notes(runs: Sequence[Dossier], decks: Sequence[Deck]) -> dict[str, list[Sentence]]:
    """Write the sentences above each part of the page."""
    done = [run for run in runs if run.finished]

    def each(write: Callable[[Dossier], list[Sentence]]) -> list[Sentence]:
        return _few([line for run in done for line in write(run)])

    return {
        "rounds": each(_stayed),
        "compared": _few([line for run in done for line in _attack(run, runs)]),
        "rules": _undetected(decks),
        "proven": each(_certified),
        "relied": each(_audited),
    }


def clients(deck: Deck) -> list[Sentence]:
    """Name the malicious clients of a federation, and count who loses by a model."""
    lines = [line for run in deck.runs for line in (*_loses(run), *_newcomers(run))]
    return [*_marked(deck.runs), *_few(lines)]


def _few(lines: list[Sentence]) -> list[Sentence]:
    if len(lines) <= _LINES:
        return lines
    return [*lines[:_LINES], ("page.more", str(len(lines) - _LINES))]


def named(runs: Sequence[Dossier], most: int = 6) -> str:
    """List the names of at most `most` runs, and the number of further runs."""
    more = f" and {len(runs) - most} more" if len(runs) > most else ""
    return ", ".join(quoted(run) for run in runs[:most]) + more


def shared(runs: Sequence[Dossier]) -> str:
    """Return what the labels of all these runs have in common, or their names."""
    if len(runs) == 1:
        return quoted(runs[0])
    parts = [run.label.split(",") for run in runs]
    both = [part for part in parts[0] if all(part in other for other in parts[1:])]
    words = short(",".join(both)).replace(",", ", ")
    return f"{words} ({len(runs)} runs)" if both else named(runs, 3)


def _marked(runs: Sequence[Dossier]) -> list[Sentence]:
    """Name the malicious clients."""
    bad = np.flatnonzero(runs[0].column("malicious") == 1)
    n = str(len(runs[0].column("client")))
    if not len(bad):
        return [("page.peaceful", n)]
    does = hostility(runs[0])
    return [("page.marked", str(len(bad)), n, listed(bad), does[0].upper() + does[1:])]


def _undetected(decks: Sequence[Deck]) -> list[Sentence]:
    """Name the runs whose server acted on no update although clients are malicious."""
    every = (*VERDICTS, "chosen")
    blind = [
        run
        for deck in decks
        for run in deck.runs
        if (run.column("malicious") == 1).any()
        and not any(np.nansum(run.column(v)) for v in every)
    ]
    return [("page.undetected", named(blind))] if blind else []


def _loses(run: Dossier) -> list[Sentence]:
    """Count the benign clients that lose and gain by their own model; name losers."""
    if run.part("personalizer") == "none":
        return []
    metric, sign = run.metric, 1 if run.metric == "accuracy" else -1
    gain = sign * (run.column(metric) - run.column(f"shared_{metric}"))
    known = run.judged & ~np.isnan(gain)
    gain = gain[known]
    less = "less" if metric == "accuracy" else "more"
    counts = [str(int(v.sum())) for v in (gain > 0, gain == 0)]
    lost = quoted(run), str(int((gain < 0).sum())), str(len(gain))
    who = listed(run.column("client")[known][gain < 0], 5)
    rule, names = ("page.losers", (who,)) if (gain < 0).any() else ("page.loses", ())
    return [(rule, *lost, less, metric, *counts, *names)]


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
    return [("page.unfinished", quoted(run), *far, resume(run))]


def _stayed(run: Dossier) -> list[Sentence]:
    why = [r.get("why") for r in run.rounds if r.get("stayed")]
    if not why:
        return []
    total = str((run.summary or {}).get("rounds", run.total))
    return [("page.stayed", quoted(run), str(len(why)), total, str(why[-1]))]


def _newcomers(run: Dossier) -> list[Sentence]:
    if "newcomers" not in (run.summary or {}):
        return []
    late, metric = str(int(run.column("newcomer").sum())), run.metric
    both = (run.mean(kind) for kind in ("newcomers", "newcomers_shared"))
    own, shared = (number(v, metric) for v in both)
    return [("page.newcomers", quoted(run), late, metric, own, shared)]


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
