"""Panels of Ditto's Figures 1 and 2: lines by theory, marks by simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from troth.reproduce.panels import SIMULATED, THEORY, Line, Panel

_SPREADS = {"within": "within a federation", "pooled": "pooled over federations"}
_ERROR = "error of benign clients"


def panels(figure: dict[str, Any]) -> Iterator[Panel]:
    """As the script left them: over λ, or over relatedness."""
    yield from _over_lam(figure) if "lam" in figure else _over_tau(figure)


def _over_lam(figure: dict[str, Any]) -> Iterator[Panel]:
    """Figure 1: mean errors, then their spread over clients; each with its best λ."""
    for panel in figure["panels"]:
        at = {f"λ* = {panel['best']:.2f}, {_case(panel)}": panel["best"]}
        lines = _both(figure, panel, "error", "mean error")
        yield Panel(f"{panel['title']}\n{_ERROR}", "λ", lines, "symlog", at)
    for panel in figure["panels"]:
        lines, at = {}, {f"λ* = {panel['best']:.2f}, {_case(panel)}": panel["best"]}
        for name, label in _SPREADS.items():
            lines |= _both(figure, panel, f"std_{name}", f"spread {label}")
        if "fairest" in panel:
            at[f"least spread within: λ = {panel['fairest']:.2f}"] = panel["fairest"]
        title = f"{panel['title']}\nits spread over clients"
        yield Panel(title, "λ", lines, "symlog", at)


def _case(panel: dict[str, Any]) -> str:
    return "adversarial" if panel["case"]["K_a"] else "clean"


def _both(
    figure: dict[str, Any], panel: dict[str, Any], name: str, label: str
) -> dict[str, Line]:
    """By theory, and as simulated."""
    return {
        label + THEORY: Line(np.array(figure["fine"]), np.array(panel["theory"][name])),
        label + SIMULATED: Line(np.array(figure["lam"]), np.array(panel[name])),
    }


def _over_tau(figure: dict[str, Any]) -> Iterator[Panel]:
    """Figure 2: errors of three models, then the best λ; clients alike to the right."""
    x, along = 1 / np.array(figure["tau"]), "relatedness of clients, 1/τ"
    for panel in figure["panels"]:
        lines: dict[str, Line] = {}
        for name, values in panel["theory"].items():
            lines[name + THEORY] = Line(x, np.array(values))
            lines[name + SIMULATED] = Line(x, np.array(panel[name]))
        yield Panel(f"{panel['title']}\n{_ERROR}", along, lines)
    for panel in figure["panels"]:
        lines = {"λ* by theory": Line(x, np.array(panel["best"]))}
        yield Panel(f"{panel['title']}\nbest λ", along, lines)
