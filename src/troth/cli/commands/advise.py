"""`troth advise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.cli.commands._flags import DataDir, Folder, Json
from troth.cli.commands._opening import opened

if TYPE_CHECKING:
    from troth.examine.advise import Advice


def advise(path: Folder, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Suggest Ditto's λ for a run's own clients, as theory has it."""
    from troth.cli import tables
    from troth.examine import advise as advice

    found = advice.advise(opened(path), data_dir)
    tables.show(None, _words(found), found._asdict(), as_json)


def _words(a: Advice) -> list[str]:
    """Say what was found, what follows, and how far to trust it."""
    low, median, high = a.examples
    range_ = f"{median}" if low == high else f"{median} (median; {low} to {high})"
    layer = f"layer '{a.layer}'" if a.layer else "the model"
    lines = [
        f"From {a.used} benign clients of {a.clients}, with {range_} training examples "
        f"each, by {a.method} on {layer}:",
        f"  σ² = {a.sigma2:.4g} within a client, "
        f"τ² = {a.tau2:.4g} ± {a.tau2_error:.2g} between clients",
        f"  λ = {_number(a.lam)}, from {_number(a.lam_range[0])} to "
        f"{_number(a.lam_range[1])} as τ² is uncertain{_meaning(a.lam)}",
    ]
    if low != high:
        most, least = map(_number, a.lam_sizes)
        lines.append(
            f"  λ = {most} for the client with most examples, {least} with least"
        )
    return [*lines, _adversaries(a), *(f"Rough: {text}." for text in a.rough)]


def _number(lam: float) -> str:
    return "∞" if lam == float("inf") else f"{lam:.3g}"


def _meaning(lam: float) -> str:
    """What an extreme λ amounts to."""
    if lam == float("inf"):
        return ": clients differ by no more than noise; the shared model suits all"
    return ": clients are almost the same" if lam > 100 else ""


def _adversaries(a: Advice) -> str:
    """Theorem 3, for the adversaries there are, or for some there might be."""
    if a.tau_a2 is not None:
        return (
            f"Adversaries: the {a.hostile} hostile clients' data stray by "
            f"τ_a² = {a.tau_a2:.4g}; without them λ would be "
            f"{_number(a.lam_clean)} (Theorem 3)"
        )
    K, some = a.clients, -(-a.clients // 5)
    factor = K / (K + some / max(1, K - 1) * (10**2 - 1))
    return (
        f"Adversaries: were {some} of {K} clients hostile with ten times this spread, "
        f"λ should be {factor:.2g} of this (Theorem 3)"
    )
