"""Tables of the page. A cell is text, and may name the file that has the value."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from troth.certificates.bounds import down
from troth.files import OWNER
from troth.reports import _charts
from troth.reports._front import gain, references
from troth.reports._marks import scale
from troth.reports._words import VERDICTS
from troth.reports.cards import Deck
from troth.reports.cards._choice import Chooser
from troth.reports.cards._making import provenance
from troth.reports.cards._reading import chance, listed, name
from troth.reports.cards._worlds import Model, decisions, federation, models, paired
from troth.runs import compare
from troth.runs.compare import number, short, signed
from troth.runs.inspect import Dossier

_NUMBERS = {
    "valid mean": ("valid.personal", "mean"),
    "mean": ("personal", "mean"),
    "std": ("personal", "std"),
    "worst 10 %": ("personal", "worst10"),
    "best 10 %": ("personal", "best10"),
    "weighted": ("personal", "weighted"),
    "shared mean": ("shared", "mean"),
    "shared std": ("shared", "std"),
    "shared worst 10 %": ("shared", "worst10"),
}
_COUNTS = ("asked", "dropped", "clipped", "chosen", "downweighted", "absent", "cut")


class Cell(NamedTuple):
    """The text of a cell, the file and key of its value, and a picture."""

    text: str
    file: str = ""
    key: str = ""
    mark: Markup = Markup()


class Sheet(NamedTuple):
    """A table of the page."""

    heads: list[str]
    texts: int  # how many columns hold texts; the others hold numbers
    rows: list[list[Cell]]


def runs(found: Sequence[Dossier]) -> Sheet:
    """Lay out one row of numbers per run."""
    heads = ["run", "state", "metric", *_NUMBERS, "clients", "rounds", "seconds"]
    return Sheet(heads, 3, [_row(run) for run in found])


def _row(run: Dossier) -> list[Cell]:
    file, summary = str(run.path / "summary.json"), run.summary or {}
    state = f"{len(run.rounds)} of {run.total} rounds" if run.sections else "unreadable"
    state = "finished" if run.finished else state
    cells = [Cell(name(run)), Cell(state), Cell(run.metric or "–")]
    for kind, what in _NUMBERS.values():
        on, _, whose = kind.rpartition(".")
        text = number(run.mean(whose, what, on or "test"), run.metric)
        cells.append(Cell(text, file, f"{kind}.{run.metric}_{what}"))
    for key in ("clients", "rounds"):
        cells.append(Cell(str(summary.get(key, "–")), file, key))
    seconds = summary.get("seconds")
    known = isinstance(seconds, int | float)
    return [*cells, Cell(f"{seconds:.1f}" if known else "–", file, "seconds")]


def settings(found: Sequence[Dossier]) -> Sheet:
    """Lay out the settings that differ between runs, one row per run.

    A setting that only some methods have counts if it differs between runs of these.
    """
    every = [
        (run, compare.settings_of(run.run)) for run in found if run.run is not None
    ]
    names = dict.fromkeys(key for _, own in every for key in own)
    heads = [k for k in names if len({repr(o[k]) for _, o in every if k in o}) > 1]
    rows = [[name(run), *(str(own.get(k, "–")) for k in heads)] for run, own in every]
    return Sheet(
        ["run", *heads], 1 + len(heads), [[*map(Cell, r)] for r in rows if heads]
    )


def compared(found: Sequence[Dossier], decks: Sequence[Deck]) -> list[dict[str, Any]]:
    """Compare the models that a client can choose from, then runs.

    Two runs are compared if they differ in one setting. A pair of runs that was already
    compared as models is left out. All seeds of a pair enter one comparison.
    """
    chosen = _decided(decks)
    mine = [run for run in found if run.finished]
    known = [(run.run, run.label) for run in mine if run.run is not None]
    runs = compare.compare([run for run, _ in known], [label for _, label in known])
    seen = {pair["key"] for pair in chosen}
    groups = [each for each in runs if each["kind"] == "seeds"]
    more = [p for p in runs if p["kind"] == "paired" and _key(p) not in seen]
    return [*groups, *compare.corrected([*chosen, *more])]


def _key(pair: dict[str, Any]) -> frozenset[frozenset[str]]:
    """Identify the runs of a comparison: one pair of fingerprints per seed."""
    both = zip(pair["first"], pair["second"], strict=True)
    return frozenset(frozenset(ids) for ids in both)


def _decided(decks: Sequence[Deck]) -> list[dict[str, Any]]:
    """Compare the models that clients can choose from, over all seeds.

    `key` identifies the two runs if every client of them uses the compared models. It
    is None if a model is the shared model of a run with personal models.
    """
    pooled: dict[tuple[str, ...], list[tuple[Model, Model]]] = {}
    for deck in decks:
        for a, b in decisions(deck.runs):
            names = (compare.without_seed(m.label) for m in (a, b))
            pooled.setdefault((federation(a.run), *names), []).append((a, b))
    pairs = []
    for (_, *labels), both in pooled.items():
        every = [m for two in both for m in two]
        if len(both) == 1:
            labels = [m.label for m in every]
        whole = all(
            m.kind == "personal" or m.run.part("personalizer") == "none" for m in every
        )
        ids = [[str(m.run.resolved.get("fingerprint")) for m in two] for two in both]
        key = _key({"first": [i for i, _ in ids], "second": [i for _, i in ids]})
        metric = every[0].run.metric
        pair: dict[str, Any] = {"kind": "paired", "metric": metric}
        pair |= {"label": " − ".join(labels), "key": key if whole else None}
        pairs.append(pair | paired(both, metric)._asdict())
    return pairs


def pairs(found: Sequence[dict[str, Any]]) -> Sheet:
    """Lay out one row per pair of models or methods, with the interval as a picture."""
    heads = ["a − b", "metric", "95 % interval", "mean difference", "low", "high"]
    heads += ["better", "worse", "equal", "seeds", "p"]
    both = [pair for pair in found if pair["kind"] == "paired"]
    keys, rows = ("mean_difference", "low", "high"), []
    for pair in both:
        metric = pair["metric"]
        alike = [[p[k] for k in keys] for p in both if p["metric"] == metric]
        ends = pair["low"], pair["mean_difference"], pair["high"]
        mark = _charts.interval(*ends, scale([0.0], alike))
        texts = [signed(pair[key], metric) for key in keys]
        texts += [str(pair[key]) for key in ("better", "worse", "equal", "seeds")]
        first = [Cell(pair["label"]), Cell(metric), Cell("", mark=mark)]
        rows.append([*first, *map(Cell, [*texts, chance(pair["p_holm"])])])
    return Sheet(heads, 3, rows)


def seeds(found: Sequence[dict[str, Any]]) -> Sheet:
    """Lay out one row per group of runs that differ only in the seed."""
    rows = []
    for group in found:
        if group["kind"] == "seeds":
            metric, texts = group["metric"], [short(group["label"])]
            texts.append(str(len(group["seeds"])))
            for kind, what in _NUMBERS.values():
                both = group["numbers"].get(f"{kind}.{metric}_{what}", {})
                ends = (number(both.get(k), metric) for k in ("mean", "half_width"))
                texts.append(" ± ".join(ends))
            rows.append([*map(Cell, texts)])
    return Sheet(["runs", "seeds", *_NUMBERS], 1, rows)


def defenses(found: Sequence[Dossier]) -> Sheet:
    """Count the updates of malicious and benign clients by what the server did."""
    heads = ["run", "updates", "of malicious clients", "of benign clients"]
    rows = []
    for run in (run for run in found if run.finished):
        bad, asked = run.column("malicious") == 1, np.nan_to_num(run.column("asked"))
        for verdict in (*VERDICTS, "chosen"):
            counts = np.nan_to_num(run.column(verdict))
            if counts.any():
                both = [
                    [f"{counts[who].sum():.0f} of {asked[who].sum():.0f}"]
                    + [listed(np.flatnonzero(who & (counts > 0)))]
                    for who in (bad, ~bad)
                ]
                texts = [f"{n}: {who}" for n, who in both]
                rows.append([*map(Cell, (name(run), verdict, *texts))])
    return Sheet(heads, 4, rows)


def origins(found: Sequence[Dossier]) -> Sheet:
    """Lay out the folder, seed and versions of every run."""
    heads = ["run", "folder", "experiment", "seed", "Troth", "torch", "revision"]
    rows = []
    for run in found:
        p = provenance(run)
        versions = [p["versions"].get(k, "–") for k in ("troth", "torch")]
        texts = [name(run), str(run.path), p["id"], p["seed"]]
        texts += [*versions, p["revision"][:12]]
        rows.append([Cell(str(text)) for text in texts])
    return Sheet(heads, len(heads), rows)


def clients(deck: Deck) -> dict[str, Any]:
    """Return the table of clients: headings, columns of text, and their sources."""
    first, metric = deck.runs[0], deck.runs[0].metric
    bad, late = first.column("malicious") == 1, first.column("newcomer") == 1
    who = np.where(bad, "malicious", np.where(late, "newcomer", "benign"))
    use = [c.model.label if c.model else "–" for c in deck.choices]
    table = [
        ("client", [str(k) for k in deck.ids], "clients.csv:client"),
        ("role", who.tolist(), "clients.csv:malicious"),
        ("use", use, ""),
    ]
    if owners := deck.owners:
        table.append((OWNER, owners, f"clients.csv:{OWNER}"))
    for model in models(deck.runs):
        column = metric if model.kind == "personal" else f"shared_{metric}"
        source = f"{model.run.path.name}/clients.csv:{column}"
        texts = [number(float(v), metric) for v in model.values]
        table.append((f"{metric}, {_spaced(model.label)}", texts, source))
    for model in models(deck.runs):
        for key in _scores(model.run):
            column = key if model.kind == "personal" else f"shared_{key}"
            source = f"{model.run.path.name}/clients.csv:{column}"
            texts = [number(float(v), key) for v in model.run.column(column)]
            table.append((f"{key}, {_spaced(model.label)}", texts, source))
    for best in Chooser(deck.runs).models[:1]:
        for head, other in references(best, deck).items():
            gains = [signed(float(v), metric) for v in best.values - other.values]
            about = f"{gain(metric, head)}, {_spaced(best.label)}"
            table.append((about, gains, ""))
    for key in ("train", "test", *_COUNTS):
        values = np.nan_to_num(first.column(key)).astype(int)
        if key in ("train", "test", "asked") or values.any():
            source = f"{first.path.name}/clients.csv:{key}"
            table.append((key, [str(v) for v in values], source))
    table += [(title, texts, "") for title, texts in _examined(deck)]
    heads, columns, sources = zip(*table, strict=True)
    words = ("role", "use", OWNER)
    names = [{"name": head, "numeric": head not in words} for head in heads]
    return {"heads": names, "columns": columns, "from": sources}


def _scores(run: Dossier) -> list[str]:
    """Return the columns of the scores in `evaluate.scores`, of clients' own models."""
    evaluate = run.sections.get("evaluate")
    scores = evaluate.get("scores", []) if isinstance(evaluate, dict) else []
    parts = scores if isinstance(scores, list) else []
    names = [p.get("name") if isinstance(p, dict) else p for p in parts]
    own = [str(name).rpartition(":")[2] for name in names]
    columns = run.clients or {}
    return [
        column
        for column in columns
        if f"shared_{column}" in columns
        and any(column == name or column.startswith(f"{name}_") for name in own)
    ]


def _spaced(label: str) -> str:
    """Return a label with spaces, where a heading may break."""
    return label.replace(",", ", ")


def _examined(deck: Deck) -> list[tuple[str, list[str]]]:
    """Return the columns of certified radii and audit changes that are not empty."""
    found = []
    for run, cards in zip(deck.runs, deck.cards, strict=True):
        keys = [(c.settings["transform"], c.settings["sigma"]) for c in run.certified]
        for transform, sigma in dict.fromkeys(keys):
            each = [_radius(card.facts, transform, float(sigma)) for card in cards]
            if any(text != "–" for text in each):
                title = (
                    f"radius ({transform}, σ {float(sigma):g}), {_spaced(name(run))}"
                )
                found.append((title, each))
        parts = [card.facts["shortcuts"] for card in cards]
        if any(parts):
            texts = [signed(p["change"], "accuracy") if p else "–" for p in parts]
            found.append((f"change in the audit, {_spaced(name(run))}", texts))
    return found


def _radius(facts: dict[str, Any], transform: str, sigma: float) -> str:
    """Return the mean radius of a client's first certificates with these settings."""
    for each in facts["certificates"]:
        if (each["transform"], each["sigma"]) == (transform, sigma):
            return down(each["mean_radius"])
    return "–"
