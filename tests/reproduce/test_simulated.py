"""Ditto's Figures 1 and 2, from what is committed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from troth import theory
from troth.reproduce import simulated
from troth.reproduce.panels import SIMULATED, THEORY
from troth.reproduce.store import named

(SAID,) = named(Path(__file__).parents[2] / "experiments", "theory/figures")


def test_figure_1_has_theory_simulation_and_the_best_lambda() -> None:
    found = [*simulated.panels(SAID["figure 1"])]
    assert len(found) == 4 and {panel.scale for panel in found} == {"symlog"}
    for panel, told in zip(found, SAID["figure 1"]["panels"] * 2, strict=True):
        assert told["best"] in panel.at.values()
        assert f"λ* = {told['best']:.2f}" in " ".join(panel.at)
        for name in (name for name in panel.lines if name.endswith(THEORY)):
            label = name.removesuffix(THEORY)
            line, points = panel.lines[name], panel.lines[label + SIMULATED]
            near = np.interp(points.x, line.x, line.y)
            np.testing.assert_allclose(points.y, near, rtol=0.05)
            assert "std_" not in label and points.x[0] == 0
    case = SAID["figure 1"]["panels"][0]["case"]
    assert found[0].at["λ* = 2.13, clean"] == theory.best_lam_points(
        case["n"], case["sigma"], case["tau"]
    )


def test_figure_2_has_three_models_and_the_best_lambda() -> None:
    found = [*simulated.panels(SAID["figure 2"])]
    errors, lams = found[:3], found[3:]
    for panel in errors:
        local, shared, ditto = (line.y for line in [*panel.lines.values()][::2])
        named = [f"{name}{THEORY}" for name in ("local", "shared", "Ditto, λ*")]
        assert [*panel.lines][::2] == named
        assert (ditto <= local).all() and (ditto <= shared).all()
        np.testing.assert_allclose(panel.lines["Ditto, λ*" + SIMULATED].y, ditto, 0.05)
    for panel in lams:
        (line,) = panel.lines.values()
        assert panel.title.endswith("best λ") and (np.diff(line.y) > 0).all()
    assert all("panel" not in panel.title for panel in found)
