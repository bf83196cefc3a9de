"""The command `troth advise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.cli.commands._flags import DataDir, Folder, Json, opened

if TYPE_CHECKING:
    from troth.examine.advise import Advice


def advise(path: Folder, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Estimate the best λ of Ditto for the clients of a run."""
    from troth.cli import tables
    from troth.examine import advise as advising

    advice = advising.advise(opened(path), data_dir)
    tables.show(None, _words(advice), advice._asdict(), as_json)


def _words(a: Advice) -> list[str]:
    """Return lines with the estimates, the best λ, and cautions."""
    low, median, high = a.examples
    range_ = f"{median}" if low == high else f"{median} (median; {low} to {high})"
    layer = f"layer '{a.layer}'" if a.layer else "the model"
    lines = [
        f"Estimated from {a.used} benign clients of {a.clients} clients, with {range_} "
        f"training examples each, by {a.method} on {layer}:",
        f"  σ² = {a.sigma2:.4g} within a client",
        f"  τ² = {a.tau2:.4g} between clients, 95 % interval "
        f"{_number(a.tau2_range[0])} to {_number(a.tau2_range[1])}",
        f"  λ = {_number(a.lam)}, and {_number(a.lam_range[0])} to "
        f"{_number(a.lam_range[1])} for the interval of τ²{_extreme(a)}",
    ]
    if low != high:
        most, least = map(_number, a.lam_sizes)
        lines.append(
            f"  λ = {most} for the client with the most examples, and {least} for the "
            "client with the fewest"
        )
    return [*lines, _adversaries(a), *(f"Caution: {text}." for text in a.rough)]


def _extreme(a: Advice) -> str:
    """Return an explanation of a λ that is infinite or very large, otherwise ""."""
    if a.lam == float("inf"):
        return (
            ". No difference between clients was found beyond noise: λ = ∞ is the "
            "shared model"
        )
    return ". The clients' data are almost the same" if a.lam_range[0] > 100 else ""


def _number(lam: float) -> str:
    return "∞" if lam == float("inf") else f"{lam:.3g}"


def _adversaries(a: Advice) -> str:
    """Return a line about the influence of malicious clients on λ.

    It is computed by Theorem 3 of Li et al. (2021), *Ditto*. If the run has no
    malicious clients, the line is about hypothetical ones.
    """
    if a.tau_a2 is not None:
        return (
            f"Adversaries: the data of the {a.hostile} malicious clients deviate by "
            f"τ_a² = {a.tau_a2:.4g}; without them λ would be "
            f"{_number(a.lam_clean)} (Theorem 3)"
        )
    K, some = a.clients, -(-a.clients // 5)
    factor = K / (K + some / max(1, K - 1) * (10**2 - 1))
    return (
        f"Adversaries: if {some} of {K} clients were malicious and deviated ten times "
        f"as far, λ should be {factor:.2g} times the λ above (Theorem 3)"
    )
