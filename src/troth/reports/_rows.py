"""Make the rows of a trust card: a number, its interval and scale, a short sentence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from troth.certificates.bounds import down
from troth.evaluation.paired import NAN
from troth.reports import _front
from troth.reports._marks import scale
from troth.reports.cards import Card, Sentence
from troth.runs.compare import number, signed
from troth.runs.inspect import Dossier

_BINS = 40  # of the distribution behind a value
_RANK = "fairness rank"


class Row(NamedTuple):
    """One quality of a client's model."""

    head: str
    text: str  # the number; "–" if it is not known
    says: Sentence  # one short sentence
    about: str = ""  # subject of the card's sentences that explain it
    between: str = ""  # its 95 % interval as text
    value: float = NAN  # position on the scale
    low: float = NAN  # its 95 % interval
    high: float = NAN
    shared: float = NAN  # the same of the shared model, for reference
    local: float = NAN  # the same of training alone
    limit: float = NAN  # a limit that the value is compared with


def rows(card: Card) -> list[Row]:
    """Return the rows of a card; a quality that is not known says so."""
    made = [*_performance(card), *_attack(card), *_certified(card), *_shortcuts(card)]
    return [*made, *_chosen(card), *_data(card)]


def _performance(card: Card) -> list[Row]:
    f, run = card.facts, card.run
    metric, value, tests = run.metric, f["value"], str(f["data"]["test"])
    if np.isnan(value):
        return [Row(metric, "–", ("row.untested",), "served")]
    mean = number(run.mean("newcomers" if f["newcomer"] else "personal"), metric)
    says: Sentence = ("row.tested", tests, str(f["of"]), mean)
    says = ("row.hostile", tests) if f["hostile"] else says
    local = NAN if f["local"] is None else f["local"]
    low, high = f["interval"] or (NAN, NAN)
    ends = " to ".join(number(v, metric) for v in f["interval"] or ())
    more = {"shared": f["shared"] if f["own_model"] else NAN, "local": local}
    text = number(value, metric)
    found = [Row(metric, text, says, "served", ends, value, low, high, **more)]
    if f["own_model"]:
        gain, shared = value - f["shared"], number(f["shared"], metric)
        known = number(local, metric), signed(value - local, metric)
        says = (
            ("row.gain", shared) if np.isnan(local) else ("row.gains", shared, *known)
        )
        says = ("row.alone", shared) if run.part("personalizer") == "local" else says
        text = signed(gain, metric)
        found.append(Row(_front.gain(metric), text, says, "gain", value=gain))
    rank, of = f["rank"], str(f["of"])
    way = "higher" if metric == "accuracy" else "lower"
    if rank is None:
        return [*found, Row(_RANK, "–", ("row.unranked",))]
    ahead: Sentence = ("row.rank", str(rank - 1), of, way, metric)
    return [*found, Row(_RANK, f"{rank} of {of}", ahead, value=rank)]


def _attack(card: Card) -> list[Row]:
    p, metric, head = card.facts["poisoning"], card.run.metric, "effect of the attack"
    counts = str(p["hostile"]), str(p["clients"])
    for each in p["beside"][:1]:
        cost, both = each["attacked"] - each["clean"], (each["clean"], each["attacked"])
        says = ("row.attack", *(number(v, metric) for v in both), *counts)
        return [Row(head, signed(cost, metric), says, "poisoning", value=cost)]
    alone = card.run.part("personalizer") == "local" and not card.facts["hostile"]
    rule = "apart" if alone else "attacked" if card.run.attacked else "quiet"
    return [Row(head, "–", (f"row.{rule}", *counts), "poisoning")]


def _certified(card: Card) -> list[Row]:
    found = []
    for c in card.facts["certificates"]:
        head = f"certified radius, {c['transform']}, σ = {c['sigma']:g}"
        ends = [f"{c[f'proven_{end}']:.0%}" for end in ("low", "high")]
        says = ("row.certified", str(c["proven"]), str(c["examples"]), *ends, c["unit"])
        mean = c["mean_radius"]
        found.append(Row(head, down(mean), says, "certificate", value=mean))
    never = _said(card, "certificate.never")
    head = "certified radius"
    return found or never or [Row(head, "–", ("row.uncertified",), "certificate")]


def _said(card: Card, *rules: str) -> list[Row]:
    """Return a row without a number, with the first sentence of one of these rules."""
    heads = {"certificate": "certified radius", "shortcuts": "shortcuts"}
    found = [sentence for sentence in card.sentences if sentence[0] in rules]
    return [Row(heads[one[0].split(".")[0]], "–", one) for one in found[:1]]


def _shortcuts(card: Card) -> list[Row]:
    s = card.facts["shortcuts"]
    if s is None:
        never = _said(card, "shortcuts.shared", "shortcuts.never", "shortcuts.empty")
        return never or [Row("shortcuts", "–", ("row.unaudited",), "shortcuts")]
    rule = {1.0: "above", 0.0: "below"}.get(s["suspect"], "open")
    says = (f"row.{rule}", f"{s['limit']:g}", str(s["examples"]))
    values = s["change"], s["change_low"], s["change_high"]
    text, *ends = (signed(v, "accuracy") for v in values)
    about = "shortcuts", " to ".join(ends)
    return [Row("shortcuts", text, says, *about, *values, limit=s["limit"])]


def _chosen(card: Card) -> list[Row]:
    found = list[tuple[str, str, Sentence]]()
    for sentence in card.sentences:
        rule, values = sentence[0], sentence[1:]
        if rule in ("lam.chosen", "lam.set"):
            how = "chosen for this client" if rule == "lam.chosen" else "set for all"
            found.append(("λ", values[0], ("row.lam", how)))
        elif rule == "lam.told":
            found.append((values[0], values[1], ("row.told",)))
    return [Row(h, text, says, "lam", value=float(text)) for h, text, says in found]


def _data(card: Card) -> list[Row]:
    d, r = card.facts["data"], card.facts["rounds"]
    says: Sentence = ("row.data", str(d["valid"]), str(d["test"]))
    sizes = Row("training examples", str(d["train"]), says, "data", value=d["train"])
    if card.facts["newcomer"]:
        return [sizes, Row("rounds", "0", ("row.newcomer",), "rounds", value=0.0)]
    kinds = [k for k in r if r[k] and k != "asked"] or ["dropped", "clipped"]
    counts = ", ".join(f"{r[k]} {k}" for k in kinds)
    total = (card.run.summary or {}).get("rounds", card.run.total)
    text = f"{r['asked']} of {total}"
    return [
        sizes,
        Row("rounds", text, ("row.rounds", counts), "rounds", value=r["asked"]),
    ]


def axes(run: Dossier, made: Sequence[Sequence[Row]]) -> dict[str, list[Any]]:
    """Return the scale of every quality: its ends, and how benign clients are spread.

    Args:
        run: The run.
        made: The rows of all its clients.

    Returns:
        Quality → low end, high end, labels of the ends, and 40 counts.
    """
    found: dict[str, list[Row]] = {}
    for judged, own in zip(run.judged, made, strict=True):
        for row in own:
            found.setdefault(row.head, []).extend([row] if judged else [])
    scales = {}
    for head, every in found.items():
        values = np.array([row[5:] for row in every], float).reshape(-1, 6)
        known = values[np.isfinite(values[:, 0]), 0]
        if head == _RANK and len(known) > 1:  # every place is taken: no distribution
            scales[head] = [1, len(known), "1", str(len(known)), []]
        elif known.size and known.min() < known.max():
            axis = scale(values, most=1.0 if head == "accuracy" else np.inf)
            counts, _ = np.histogram(known, _BINS, (axis.low, axis.high))
            ends = [text for _, text in axis.ticks()]
            scales[head] = [axis.low, axis.high, ends[0], ends[-1], counts.tolist()]
    return scales


def short(row: Row) -> list[Any]:
    """Return a row for JSON; NaN becomes null."""
    numbers = [None if v != v else round(float(v), 5) for v in row[5:]]
    while numbers and numbers[-1] is None:
        numbers.pop()
    return [*row[:5], *numbers]
