"""What certificates and audits say about one client."""

from typing import Any

import numpy as np

from troth.certificates.bounds import down
from troth.certificates.ledger import NAME as CERTIFICATES
from troth.reports.cards._reading import command, keeping, saved
from troth.reports.cards._rules import Sentence
from troth.runs.compare import number, signed
from troth.runs.inspect import Certified, Dossier

Part = tuple[Any, list[Sentence]]
"""Facts for JSON, and sentences."""


def certificates(run: Dossier, client: int, hash_: str) -> Part:
    """Return one entry per setting under which this client's model was certified."""
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


def certify(
    run: Dossier,
    transform: str = "pixel",
    sigma: float = 0.25,
    client: int | None = None,
) -> str:
    """Write the command that certifies all models of a run, or one client's."""
    one = () if client is None else ("--client", client)
    how = ("--transform", transform, "--sigma", f"{sigma:g}")
    return command("certify", run.path, *how, *one)


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
    facts = {
        "transform": s["transform"],
        "sigma": float(s["sigma"]),
        "model": kind,
        "unit": each.unit,
        "examples": m,
        "right": int(right.sum()),
        "proven": proven,
        "radius_of_half": half,
        "mean_radius": mean,
        "confidence": 1 - float(s["alpha"]),
        "parameters": str(t["parameters"][0]),
    }
    what = s["transform"].capitalize(), f"{float(s['sigma']):g}"
    if half > 0:
        at = (str(m), down(half), each.unit, sure, down(mean))
        return facts, ("certificate.half", *what, *at)
    few = (str(proven), str(m), each.unit, sure, down(mean))
    return facts, ("certificate.fewer", *what, *few)


def shortcuts(run: Dossier, client: int) -> Part:
    """Return what an audit found about the client's own model."""
    if run.part("personalizer") == "none":
        return None, [("shortcuts.shared",)]
    if not run.resolved.get("classes"):
        return None, [("shortcuts.never",)]
    row = None if run.audit is None else run.audit.row.get(client)
    if run.audit is None or row is None:
        if not saved(run):
            return None, [("shortcuts.unsaved", keeping(run))]
        asks = command("audit", run.path, "--client", client)
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
