"""Judge the findings of the paper, and one question more, by the table of results.

A case is a data set, a change of inputs and a number of clients. Unless stated
otherwise, cases compare the clients' mean certified accuracy, averaged over the tested
radii, and differences of at most .01 count as none. Spreads over clients are without
the part that is due to the few test images. They are compared by paired 95 % intervals
(`troth.certificates.spread`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from common import markdown
from found import (
    CHANGES,
    CLIENTS,
    LAMBDAS,
    NONE,
    RATES,
    Line,
    alone,
    authors,
    every,
    left,
    load,
    mixed,
    nominal,
    read,
    together,
)

WHOSE = ("personal", "shared")
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


class Case(NamedTuple):
    """One comparison."""

    label: str
    said: str
    holds: bool | None  # None: too small to tell


class Finding(NamedTuple):
    """A statement of the paper, and the cases that test it here."""

    text: str
    cases: Callable[[], Iterator[Case]]
    numbers: str = ""  # where they stand, if not here


def signed(value: float) -> str:
    """Format a difference as +.012."""
    return f"{round(value, 3) + 0.0:+.3f}".replace("0.", ".", 1)


def gap(a: Line | None, b: Line | None) -> float | None:
    """Return how much higher certified accuracy `a` has, as a mean over radii."""
    if a is None or b is None:
        return None
    apart = np.subtract(a.curve["mean"], b.curve["mean"])
    return round(float(apart.mean()), 3)  # judged as it is shown


def most(a: Line, b: Line) -> float:
    """Return the same difference at the radius where it is largest."""
    apart = np.subtract(a.curve["mean"], b.curve["mean"])
    return float(apart[np.abs(apart).argmax()])


def compared(
    label: str,
    a: Line | None,
    b: Line | None,
    holds: Callable[[float], bool] = lambda more: more > NONE,
) -> Iterator[Case]:
    """Yield one case if both runs have results."""
    more = gap(a, b)
    if more is not None:
        yield Case(label, signed(more), holds(more))


def alike(more: float) -> bool:
    """Return whether a difference counts as none."""
    return abs(more) <= NONE


def enough() -> Iterator[Case]:
    """4.1 (i)."""
    for change in CHANGES[1:]:
        pair = together("mnist", change, 4), alone("mnist", change, 4)
        yield from compared(f"MNIST, {change}", *pair, alike)


def _gains(change: str) -> dict[int, float]:
    found = {
        n: gap(together("mnist", change, n), alone("mnist", change, n)) for n in CLIENTS
    }
    return {n: more for n, more in found.items() if more is not None}


def fewer() -> Iterator[Case]:
    """Yield the cases of 4.1 (ii), over at least three numbers of clients."""
    for change in CHANGES[1:]:
        gains = _gains(change)
        if len(gains) > 2:
            said = ", ".join(f"{n} clients {signed(g)}" for n, g in gains.items())
            grows = all(a < b for a, b in pairwise(gains.values()))
            yield Case(f"MNIST, {change}", said, grows and [*gains.values()][-1] > NONE)


def fifth() -> Iterator[Case]:
    """Yield the cases of 4.1 (ii), at the radius where the difference is largest."""
    pairs = {"CIFAR-10, rotation, 10": ("cifar10", "rotation", 10)}
    for change in CHANGES[1:]:
        pairs |= {f"MNIST, {change}, {n}": ("mnist", change, n) for n in (10, 20)}
    for label, where in pairs.items():
        a, b = together(*where), alone(*where)
        if a is not None and b is not None:
            yield Case(label, signed(most(a, b)), most(a, b) > 0.2)


def no_change() -> Iterator[Case]:
    """4.1 (iii)."""
    places = [("mnist", change, n) for n in CLIENTS for change in CHANGES]
    for data, change, n in [*places, ("cifar10", "rotation", 10)]:
        pair = together(data, change, n, "personal"), together(data, change, n)
        yield from compared(f"{SETS[data]}, {change}, {n}", *pair, alike)
    gently = (load("cifar10_gently", "rotation → rotation", who) for who in WHOSE)
    yield from compared("the same with a tenth of the rate", *gently, alike)


def spread() -> Iterator[Case]:
    """4.1 (iv) and A.3: of clients' certified accuracy."""
    places = [("mnist", change, n) for n in CLIENTS for change in CHANGES]
    for data, change, n in [*places, ("cifar10", "rotation", 10)]:
        own = together(data, change, n, "personal")
        local = alone(data, change, n)
        if data == "mnist":  # on all test images, if they were certified
            own = every(change, n, "personalized") or own
            local = every(change, n, "local") or local
        if own is not None and local is not None:
            said = f"{local.apart:.3f} to {own.apart:.3f}"
            yield Case(f"{SETS[data]}, {change}, {n}", said, local.further(own))


def helps() -> Iterator[Case]:
    """4.2, Figure 2."""
    for data in ("mnist", "cifar10"):
        for change in CHANGES:
            pair = nominal(data, change), nominal(data, change, model="shared")
            yield from compared(f"{SETS[data]}, {change}", *pair)


def affine() -> Iterator[Case]:
    """4.2, Figure 3."""
    for change in CHANGES[1:]:
        both = (load("mnist_affine", change, of) for of in ("personal", "shared"))
        yield from compared(f"MNIST, affine → {change}", *both)


def ahead() -> Iterator[Case]:
    """4.3 (i): the smaller σ."""
    for change in CHANGES:
        pair = nominal("cifar10", change), alone("cifar10", change)
        yield from compared(f"CIFAR-10, {change}", *pair)


def level() -> Iterator[Case]:
    """4.3 (ii): the larger σ."""
    for change in CHANGES:
        pair = nominal("mnist", change), alone("mnist", change)
        yield from compared(f"MNIST, {change}", *pair, alike)


def level_authors() -> Iterator[Case]:
    """4.3 (ii) with the authors' settings, at two rates of personalization."""
    for rate in RATES:
        for change in CHANGES:
            pair = authors(change, f"nominal, lr={rate}"), authors(change, "local")
            yield from compared(f"{change}, lr={rate}", *pair, alike)


def hundred() -> Iterator[Case]:
    """A.2, Figure 7."""
    for change in CHANGES:
        few, many = (
            gap(nominal("mnist", change, n), alone("mnist", change, n))
            for n in (10, 100)
        )
        if few is not None and many is not None:
            said = f"10 clients {signed(few)}, 100 {signed(many)}"
            yield Case(f"MNIST, {change}", said, many > max(few, NONE))


def _mixtures() -> Iterator[tuple[str, dict[str, float], float]]:
    """Yield average certified radii by λ and of the shared model, where complete."""
    places = [("mnist", change) for change in CHANGES] + [("cifar10", "rotation")]
    for data, change in places:
        lines, shared = mixed(data, change), together(data, change)
        if len(lines) == 4 and shared is not None:
            radii = {lam: line.curve["acr"] for lam, line in lines.items()}
            yield f"{SETS[data]}, {change}", radii, shared.curve["acr"]


def better() -> Iterator[Case]:
    """4.4 (i): average certified radii, for 0 < λ < 1."""
    for label, radii, shared in _mixtures():
        inside = {lam: radius for lam, radius in radii.items() if lam != "1.0"}
        said = ", ".join(f"λ={lam} {radius:.3f}" for lam, radius in inside.items())
        held = min(inside.values()) > shared
        yield Case(label, f"{said}; federated {shared:.3f}", held)


def nearer() -> Iterator[Case]:
    """4.4 and Figure 5: the average certified radius falls as λ grows."""
    for label, radii, _ in _mixtures():
        said = ", ".join(f"{radius:.3f}" for radius in radii.values())
        yield Case(label, said, all(a > b for a, b in pairwise(radii.values())))


STEPS = ("", ", every step")


def _lines(change: str, often: str) -> list[Line | None]:
    return [authors(change, f"λ={lam}{often}") for lam in LAMBDAS[:-1]]


def better_authors() -> Iterator[Case]:
    """4.4 (i) with the authors' settings: certified accuracy, for 0 < λ < 1."""
    for often, change in product(STEPS, CHANGES):
        shared = authors(change, "federated", "shared")
        for lam, line in zip(LAMBDAS, _lines(change, often), strict=False):
            yield from compared(f"{change}, λ={lam}{often}", line, shared)


def nearer_authors() -> Iterator[Case]:
    """4.4 with the authors' settings: the average certified radius falls with λ."""
    for often, change in product(STEPS, CHANGES):
        found = [line.curve["acr"] for line in _lines(change, often) if line]
        if len(found) == 3:
            said = ", ".join(f"{radius:.3f}" for radius in found)
            falls = all(a > b for a, b in pairwise(found))
            yield Case(f"{change}{often}", said, falls)


def settings() -> str:
    """Return accuracy and average certified radius with the authors' settings."""
    rows = []
    for change, often in product(CHANGES, STEPS):
        lines = _lines(change, often)
        if any(lines):
            rest = authors(change, "federated", "shared"), authors(change, "local")
            each = [_both(line) for line in (*lines, *rest)]
            rows.append([change, "step" if often else "round", *each])
    head = ("change", "θ̄ of the last", *(f"λ = {lam}" for lam in LAMBDAS[:-1]))
    return markdown((*head, "federated", "local"), rows) if rows else ""


def closer() -> Iterator[Case]:
    """4.4 (ii): of clients' certified accuracy; λ = .1."""
    places = [("mnist", change) for change in CHANGES] + [("cifar10", "rotation")]
    for data, change in places:
        lines, own = mixed(data, change), nominal(data, change)
        if "0.1" in lines and "1.0" in lines and own is not None:
            each = [lines["0.1"].apart, own.apart, lines["1.0"].apart]
            said = "{:.3f}, fine-tuned {:.3f}, local {:.3f}".format(*each)
            wider = [one.further(lines["0.1"]) for one in (own, lines["1.0"])]
            held = False if False in wider else None if None in wider else True
            yield Case(f"{SETS[data]}, {change}", said, held)


def readings() -> str:
    """Return accuracy and average certified radius by each reading of Eqs. 4 and 5."""
    rows = []
    for distance, start in product(("sum", "mean"), ("own", "mean")):
        lines = [read(lam, distance, start) for lam in LAMBDAS[:-1]]
        if any(lines):
            each = [_both(line) for line in lines]
            rows.append([distance, start, *each, _both(together("mnist", "rotation"))])
    head = ("distance", "start", *(f"λ = {lam}" for lam in LAMBDAS[:-1]), "federated")
    return markdown(head, rows) if rows else ""


def _both(line: Line | None) -> str:
    return f"{line.accuracy:.3f}, {line.curve['acr']:.3f}" if line else "–"


def poisoned() -> str:
    """Return a table of the shares of accuracy and average radius that are left."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for change in CHANGES[:2]:
        for one in left(change):
            cells = rows.setdefault((change, one.threat, one.rule), {})
            cells[one.whose] = f"{one.accuracy:.3f} and {one.radius:.3f}"
    head = ("change", "threat", "rule", "shared", "fine-tuned", "Ditto")
    lines = [
        [*where, *(cells.get(whose, "–") for whose in ("shared", "finetune", "ditto"))]
        for where, cells in rows.items()
    ]
    return markdown(head, lines) if lines else ""


def radius_first() -> Iterator[Case]:
    """Yield whether poisoning costs a larger share of radius than of accuracy."""
    for change in CHANGES[:2]:
        for one in left(change):
            label = f"{change}, {one.threat}, {one.rule}, {one.whose}"
            more = one.radius - one.accuracy
            yield Case(label, signed(more), more < -NONE)


FINDINGS = (
    Finding("local training is enough for 4 clients (4.1 i)", enough),
    Finding("the fewer data a client has, the more averaging gains (4.1 ii)", fewer),
    Finding("… over .2 with 10 or 20 clients (4.1 ii)", fifth),
    Finding(
        "personalizing a model that was trained for it changes little (4.1 iii)",
        no_change,
    ),
    Finding("local models lie further apart than personalized (4.1 iv, A.3)", spread),
    Finding("personalizing a nominal model makes it robust (4.2, Fig. 2)", helps),
    Finding("… and one that was trained for affine changes (4.2, Fig. 3)", affine),
    Finding("that is more than local training, for a small σ (4.3 i)", ahead),
    Finding("… and about the same for a large one (4.3 ii)", level),
    Finding("… the same with the authors' settings (4.3 ii)", level_authors),
    Finding("… but more with 100 clients (A.2, Fig. 7)", hundred),
    Finding("mixtures have a larger radius than the federated model (4.4 i)", better),
    Finding(
        "… the same with the authors' settings, certified accuracy (4.4 i)",
        better_authors,
    ),
    Finding("… the nearer to the others, the larger (4.4, Fig. 5)", nearer),
    Finding("… the same with the authors' settings (4.4)", nearer_authors),
    Finding("… and lie closer together than other models (4.4 ii)", closer),
    Finding(
        "poisoning costs radius before accuracy (ours)", radius_first, "the next table"
    ),
)


def verdict(cases: list[Case]) -> str:
    """Return in how many cases a finding holds."""
    held = sum(case.holds is True for case in cases)
    unclear = sum(case.holds is None for case in cases)
    if not cases:
        return "not run"
    if unclear == len(cases):
        return "too small to tell"
    words = "yes" if held == len(cases) else f"in {held} of {len(cases)}"
    if not held and not unclear:
        return "no"
    return f"{words}, too small to tell in {unclear}" if unclear else words


def table() -> str:
    """Return a table with one row per finding."""
    rows = []
    for finding in FINDINGS:
        cases = list(finding.cases())
        numbers = "; ".join(f"{case.label}: {case.said}" for case in cases) or "–"
        where = finding.numbers if cases and finding.numbers else numbers
        rows.append([finding.text, where, verdict(cases)])
    return markdown(("finding", "numbers", "holds here?"), rows)
