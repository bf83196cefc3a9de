"""Make the trust cards of runs, and write them as JSON."""

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from troth import files
from troth.certificates.bounds import down, lower, upper
from troth.certificates.ledger import NAME as CERTIFICATES
from troth.certificates.record import fingerprint
from troth.certificates.spread import ALPHA
from troth.networks import flat
from troth.reports.cards import _reading
from troth.reports.cards._choice import Choice, Chooser
from troth.reports.cards._reading import Sentence, audit, certify, keeping, saved
from troth.reports.cards._worlds import exposure, worlds
from troth.runs.compare import number, signed
from troth.runs.inspect import Certified, Dossier

MOST = 2**33
"""Largest file of personal models, in bytes, that is read to hash the models."""


def hashes(run: Dossier) -> dict[int, str]:
    """Return the SHA-256 of each client's model, by client.

    The result is empty if the models cannot be read or are larger than `MOST`.
    """
    with contextlib.suppress(Exception):  # the card then says how to get a hash
        return _hashes(run)
    return {}


def _hashes(run: Dossier) -> dict[int, str]:
    assert run.run is not None and run.clients is not None
    net = run.run.network().float()
    w = flat.flatten(net)
    ids = [int(k) for k in run.clients["client"]]
    file = run.path / files.PERSONAL
    if saved(run) and not file.exists():
        return dict.fromkeys(ids, fingerprint(run.run.raw(net, 0)))
    if not saved(run) or file.stat().st_size > MOST:
        return {}
    found: dict[int, str] = {}
    with safe_open(file, "pt") as tensors:
        row = {k: i for i, k in enumerate(tensors.get_tensor("client").tolist())}
        rows, never = tensors.get_slice("parameters"), ""
        for k in ids:
            if k not in row and never:  # clients without a stored row share one model
                found[k] = never
                continue
            i = row.get(k, row[-1])
            v: torch.Tensor = rows[i : i + 1][0].float()
            flat.assign(net, v.to(w))
            found[k] = fingerprint(run.run.raw(net, k))
            if k not in row and run.part("features") == "none":
                never = found[k]
    return found


_SCORES = (*files.METRICS, "loss", "balanced_accuracy", "auroc", "exact")
_VERDICTS = ("dropped", "clipped", "chosen", "downweighted")


@dataclass
class Card:
    """The trust card of one client's model in one run: facts and sentences."""

    client: int
    run: Dossier
    facts: dict[str, Any]
    sentences: list[Sentence]


@dataclass
class Deck:
    """The cards of runs with the same clients, and the suggested models."""

    runs: list[Dossier]
    choices: list[Choice]  # one per client
    cards: list[list[Card]] = field(default_factory=list)  # [run][client]

    @property
    def ids(self) -> list[int]:
        """The client numbers, in the order of the cards."""
        return [int(k) for k in self.runs[0].column("client")]

    @property
    def owners(self) -> list[str]:
        """The names of the clients' owners; [] if the data have no such names."""
        table = self.runs[0].clients or {}
        return [str(name) for name in table.get(files.OWNER, [])]


def decks(runs: Sequence[Dossier]) -> list[Deck]:
    """Make the cards of finished runs; runs with the same clients form one deck."""
    found = []
    for world in worlds(runs):
        chooser = Chooser(world)
        n = len(world[0].column("client"))
        deck = Deck(world, [chooser.choose(i) for i in range(n)])
        makers = [_Maker(run, world, runs) for run in world]
        deck.cards = [[maker.card(i) for i in range(n)] for maker in makers]
        found.append(deck)
    return found


class _Maker:
    """Makes the cards of one run."""

    def __init__(
        self, run: Dossier, world: list[Dossier], runs: Sequence[Dossier]
    ) -> None:
        self.run, self.metric = run, run.metric
        self.own = run.part("personalizer") != "none"
        self.values = run.column(self.metric)
        self.shared = run.column(f"shared_{self.metric}")
        local = [r for r in world if r.part("personalizer") == "local"]
        self.local = next((r for r in local if r is not run), None)
        self.is_local = run.part("personalizer") == "local"
        self.hashes = hashes(run)
        self.exposure = exposure(run, runs)
        self.valid = run.column(f"valid_{self.metric}")
        good, late = run.column("malicious") != 1, run.column("newcomer") == 1
        self.ranks = {
            k: _reading.ranks(self.values, good & (late == k), self.metric)
            for k in (False, True)
        }
        self.reported = _reported([*(run.clients or ())])
        self.verdicts = [v for v in _VERDICTS if np.nansum(run.column(v))]
        self.evaluated = int((~np.isnan(self.values)).sum())

    def card(self, i: int) -> Card:
        """Make the card of the client in row i."""
        client = int(self.run.column("client")[i])
        hash_ = self.hashes.get(client, "")
        certificates, proven = _certificates(self.run, client, hash_)
        shortcuts, relied = _shortcuts(self.run, client)
        poisoning, exposed = self.exposure.describe(i)
        served, well = self._served(i)
        facts = {
            "client": client,
            "run": self.run.label,
            "hostile": bool(self.run.column("malicious")[i]),
            "newcomer": self._is_late(i),
            "metric": self.metric,
            "own_model": self.own,
            **served,
            "chosen": {k: float(self.run.column(k)[i]) for k in self.reported},
            "certificates": certificates,
            "shortcuts": shortcuts,
            "poisoning": poisoning,
            "data": {k: self._count(k, i) for k in ("train", "valid", "test")},
            "rounds": {k: self._count(k, i) for k in _COUNTED},
            "parameters": hash_ or None,
        }
        lines = [*well, *self._gains(i), *self._chose(i), *proven]
        lines += [*relied, *exposed, *self._rests(i), *self._provenance(client, hash_)]
        return Card(client, self.run, facts, lines)

    def _is_late(self, i: int) -> bool:
        return bool(self.run.column("newcomer")[i] == 1)

    def _count(self, column: str, i: int) -> int:
        value = self.run.column(column)[i]
        return 0 if np.isnan(value) else int(value)

    def _served(self, i: int) -> tuple[dict[str, Any], list[Sentence]]:
        value, late = float(self.values[i]), self._is_late(i)
        size = self._count("test", i)
        rank, of = int(self.ranks[late][i]), int((self.ranks[late] > 0).sum())
        between = _reading.proportion(self.run, value, size)
        alone = self.values if self.is_local else None
        alone = self.local.column(self.metric) if self.local else alone
        facts: dict[str, Any] = {"value": value, "interval": between}
        facts |= {"rank": rank or None, "of": of, "shared": float(self.shared[i])}
        facts["valid"] = float(self.valid[i])
        facts["local"] = None if alone is None else float(alone[i])
        head, has = self.metric.capitalize(), number(value, self.metric)
        if np.isnan(value):
            if not size:
                return facts, [("served.untested", self.metric)]
            n = len(self.values)
            return facts, [("served.passed", str(self.evaluated), str(n))]
        if not rank:
            return facts, [("served.hostile", head, has, str(size))]
        kind = "newcomers" if late else "personal"
        place = str(rank), str(of), number(self.run.mean(kind), self.metric)
        limits = [number(v, self.metric) for v in between or ()]
        rule = "served.own" if self.own else "served.shared"
        if between is None:
            rule = "served.plain" if self.own else "served.shared_plain"
        lines: Sentence = (rule, head, has, str(size), *limits, *place)
        if np.isnan(self.valid[i]):
            return facts, [lines]
        valid = number(float(self.valid[i]), self.metric)
        return facts, [lines, ("served.valid", str(self._count("valid", i)), valid)]

    def _gains(self, i: int) -> list[Sentence]:
        value, shared, metric = self.values[i], self.shared[i], self.metric
        if not self.own or np.isnan(value):
            return []
        has = signed(value - shared, metric), number(shared, metric)
        lines: list[Sentence] = [("gain.shared", *has)]
        if self.local:
            alone = float(self.local.column(metric)[i])
            beside = _reading.quoted(self.local), number(alone, metric)
            lines.append(("gain.local", signed(value - alone, metric), *beside))
        elif not self.is_local:
            place, asks = _reading.again(self.run, "local", "personalizer=local")
            lines.append(("gain.local_missing", asks))
            lines.append(("gain.both", _reading.beside(self.run, place)))
        return lines

    def _chose(self, i: int) -> list[Sentence]:
        lines: list[Sentence] = []
        for column in self.reported:
            value = f"{self.run.column(column)[i]:.4g}"
            rule = ("lam.chosen",) if column == "lam" else ("lam.told", column)
            lines.append((*rule, value))
        options = self.run.sections.get("personalizer", {})
        lam = options.get("lam") if isinstance(options, dict) else None
        if "lam" not in self.reported and isinstance(lam, int | float):
            lines.append(("lam.set", f"{lam:g}"))
        return lines

    def _rests(self, i: int) -> list[Sentence]:
        sizes = (str(self._count(k, i)) for k in ("train", "valid", "test"))
        lines: list[Sentence] = [("data.sizes", *sizes)]
        if self._is_late(i):
            return [*lines, ("data.newcomer",)]
        lines.append(self._asked(i))
        away = [self._count(k, i) for k in ("absent", "cut")]
        if any(away):
            lines.append(("rounds.away", *map(str, away)))
        if not self.verdicts and self.run.column("malicious")[i]:
            lines.append(("rounds.undetected",))
        if self.verdicts:
            each = [f"{self._count(v, i)} {v}" for v in self.verdicts]
            lines.append(("rounds.verdicts", ", ".join(each)))
        return lines

    def _asked(self, i: int) -> Sentence:
        """Return the sentence on how often the client was selected."""
        train = self.run.sections.get("train")
        cohort = train.get("cohort", 0) if isinstance(train, dict) else 0
        rounds = str((self.run.summary or {}).get("rounds", self.run.total))
        n = len(self.values) - int(np.nansum(self.run.column("newcomer")))
        asked = str(self._count("asked", i)), rounds
        if isinstance(cohort, int) and 0 < cohort < n:
            return ("rounds.asked", *asked, str(cohort), str(n))
        return ("rounds.every", *asked, str(n))

    def _provenance(self, client: int, hash_: str) -> list[Sentence]:
        found = provenance(self.run)
        versions = found["versions"]
        three = (versions.get(k, "–") for k in ("troth", "python", "torch"))
        id_, seed, git = (str(found[k]) for k in ("id", "seed", "revision"))
        about = _reading.quoted(self.run), id_, seed, *three, git[:12]
        run: Sentence = ("provenance.run", *about)
        if hash_:
            return [run, ("provenance.parameters", hash_)]
        if not saved(self.run):
            return [run, ("provenance.unsaved",)]
        asks = f"{_reading.loaded(self.run, 'model')}.model({client})"
        count = str(self.run.resolved.get("parameters", "–"))
        return [run, ("provenance.hash", count, asks)]


_Part = tuple[Any, list[Sentence]]
"""A part of a card: facts for JSON, and sentences."""


def _certificates(run: Dossier, client: int, hash_: str) -> _Part:
    """Return one entry per setting with which this client's model was certified."""
    if not run.resolved.get("classes") or run.resolved.get("multi_label"):
        return [], [("certificate.never", "2")]
    kind = "shared" if run.part("personalizer") == "none" else "personal"
    found, lines = [], list[Sentence]()
    for each in run.certified:
        rows = each.rows.get((kind, client))
        if rows is not None:
            facts, words = _proof(each, kind, rows)
            found.append(facts)
            lines.append(words)
            speaks = facts["parameters"]
            if hash_ and speaks != hash_:
                s, file = each.settings, str(run.path / CERTIFICATES)
                asks = certify(run, s["transform"], float(s["sigma"]), client)
                lines.append(("certificate.stale", speaks[:12], hash_[:12], file, asks))
    if not lines and not saved(run):
        return found, [("certificate.unsaved", keeping(run))]
    return found, lines or [("certificate.missing", certify(run, client=client))]


def _proof(
    each: Certified, kind: str, rows: np.ndarray
) -> tuple[dict[str, Any], Sentence]:
    s, t = each.settings, {name: column[rows] for name, column in each.table.items()}
    right = t["label"] == t["y"]
    radius = np.sort(np.where(right, t["radius"], 0.0))[::-1]
    m = len(rows)
    half, mean = float(radius[-(-m // 2) - 1]), float(radius.mean())
    proven = int((radius > 0).sum())
    sure = f"{1 - float(s['alpha']):g}"
    low, high = lower(proven, m, ALPHA / 2), upper(proven, m, ALPHA / 2)
    facts = {
        "transform": s["transform"],
        "sigma": float(s["sigma"]),
        "model": kind,
        "unit": each.unit,
        "examples": m,
        "right": int(right.sum()),
        "proven": proven,
        "proven_low": float(low),
        "proven_high": float(high),
        "radius_of_half": half,
        "mean_radius": mean,
        "confidence": 1 - float(s["alpha"]),
        "parameters": str(t["parameters"][0]),
    }
    what = s["transform"].capitalize(), f"{float(s['sigma']):g}"
    if half > 0:
        at = (str(m), down(half), each.unit, sure, down(mean))
        ends = (str(proven), f"{low:.0%}", f"{high:.0%}")
        return facts, ("certificate.half", *what, *at, *ends)
    few = (
        str(proven),
        str(m),
        each.unit,
        sure,
        down(mean),
        f"{low:.0%}",
        f"{high:.0%}",
    )
    return facts, ("certificate.fewer", *what, *few)


def _shortcuts(run: Dossier, client: int) -> _Part:
    """Return the result of the audit of the client's own model."""
    if run.part("personalizer") == "none":
        return None, [("shortcuts.shared",)]
    if not run.resolved.get("classes"):
        return None, [("shortcuts.never",)]
    row = None if run.audit is None else run.audit.row.get(client)
    if run.audit is None or row is None:
        if not saved(run):
            return None, [("shortcuts.unsaved", keeping(run))]
        asks = audit(run, client)
        return None, [("shortcuts.missing", asks)]
    t = {name: float(column[row]) for name, column in run.audit.table.items()}
    if not t["examples"]:
        return None, [("shortcuts.empty", "0")]
    limit = float(run.audit.settings["limit"])
    verdicts = {1.0: "shortcuts.above", 0.0: "shortcuts.below"}
    rule = verdicts.get(t["suspect"], "shortcuts.open")
    shares = (number(t[n], "accuracy") for n in ("adv_accuracy", "shared_adv_accuracy"))
    lines: list[Sentence] = [
        (rule, f"{t['examples']:.0f}", *shares, *_three(t, "change"), f"{limit:g}")
    ]
    facts: dict[str, Any] = {"examples": int(t["examples"]), "limit": limit}
    facts["confidence"] = run.audit.settings["confidence"]
    names = ("adv_accuracy", "shared_adv_accuracy", "change", "change_low")
    facts |= {name: t[name] for name in (*names, "change_high", "suspect")}
    if not np.isnan(t.get("disparity", np.nan)):
        verdicts = {1.0: "shortcuts.biased", 0.0: "shortcuts.unbiased"}
        rule = verdicts.get(t["biased"], "shortcuts.bias_open")
        count = f"{t['conflicting']:.0f}"
        lines.append((rule, count, *_three(t, "disparity"), f"{limit:g}"))
        names = ("conflicting", "disparity", "disparity_low", "disparity_high")
        facts |= {name: t[name] for name in (*names, "biased")}
        facts["conflicting"] = int(t["conflicting"])
    return facts, lines


def _three(t: dict[str, float], name: str) -> list[str]:
    return [signed(t[f"{name}{end}"], "accuracy") for end in ("", "_low", "_high")]


_COUNTED = ("asked", "absent", "cut", *_VERDICTS)


def provenance(run: Dossier) -> dict[str, Any]:
    """Return the identity, seed and versions of a run."""
    facts = run.resolved
    versions, seed = facts.get("versions"), run.sections.get("seed")
    known = versions.items() if isinstance(versions, dict) else ()
    return {
        "id": str(facts.get("fingerprint", "")),
        "seed": seed if isinstance(seed, int) else 0,
        "versions": {str(k): str(v) for k, v in known},
        "revision": str(facts.get("git", "–")),
    }


def _reported(columns: list[str]) -> list[str]:
    """Return the columns of `clients.csv` that the personalizer added.

    They come after the counts and before the scores.
    """
    counts, scores = {*_COUNTED, "imputed"}, {*_SCORES, "attack_success"}
    after = max((i for i, c in enumerate(columns) if c in counts), default=0)
    return [*itertools.takewhile(lambda c: c not in scores, columns[after + 1 :])]


VERSION = "1.2"
"""Version of the format. The first number changes if old readers would misread it."""


def document(runs: Sequence[Dossier], made: list[Deck] | None = None) -> dict[str, Any]:
    """Return the cards of runs for JSON; unfinished runs are listed without cards.

    `made` are the decks of the runs, if they exist already.
    """
    found = decks(runs) if made is None else made
    return {
        "format": "troth trust cards",
        "version": VERSION,
        "runs": [files.plain(_run(run)) for run in runs],
        "cards": [
            _written(cards[i], deck, i)
            for deck in found
            for i in range(len(deck.ids))
            for cards in deck.cards
        ],
    }


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a document."""
    file = resources.files("troth.reports.cards").joinpath("schema.json")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def _run(run: Dossier) -> dict[str, Any]:
    parts = {k: run.part(k) for k in ("personalizer", "attack", "aggregator")}
    facts = {"label": run.label, "folder": str(run.path), "finished": run.finished}
    facts |= {"rounds": len(run.rounds), **provenance(run), **parts}
    return {**facts, "troubles": run.troubles}


def _written(card: Card, deck: Deck, i: int) -> dict[str, Any]:
    choice = deck.choices[i]
    use: dict[str, Any] = {"decided_by": choice.why, "run": None, "model": None}
    if choice.model is not None:
        use |= {"run": choice.model.run.label, "model": choice.model.kind}
    lines = [
        {"rule": rule, "values": values, "text": _reading.words((rule, *values))}
        for rule, *values in (*choice.sentences, *card.sentences)
    ]
    facts = files.plain(card.facts)
    if deck.owners:
        facts["owner"] = deck.owners[i]
    return {**facts, "use": use, "sentences": lines}
