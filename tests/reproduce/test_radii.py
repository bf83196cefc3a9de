"""Panels of certified accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from troth.reproduce import radii
from troth.reproduce.certified import EVERY
from troth.reproduce.entry import Entry

ENTRY = Entry("p/figure7", "t")


def said(folder: str, *whose: str, data: str = "mnist", clients: int = 10) -> Any:
    every = {str(k): {"accuracy": [0.9, 0.1 * k]} for k in range(2)}
    model = {"radii": [0, 1], "mean": [0.9, 0.1], "clients": every}
    certified = {"models": dict.fromkeys(whose, model), "unit": "pixels"}
    found = {"folder": folder, "changes": {"data": data}, "certified": certified}
    return found | {"summary": {"clients": clients}}


def test_a_panel_a_change_data_set_and_federation() -> None:
    """Labels say how models were trained, not what panels say already."""
    both = ("personal", "shared")
    every = [
        ("cifar10_nominal: noise", said("cifar10_nominal", *both, data="cifar10")),
        ("mnist_nominal: noise", said("mnist_nominal", *both)),
        ("mnist_mixture: noise, λ=1.0", said("mnist_mixture", "personal")),
        ("noise, 100 clients, local", said("clients", "personal", clients=100)),
        ("noise, 4 clients, federated", said("clients", *both, clients=4)),
    ]
    found = {
        panel.title.split("\n")[0]: [*panel.lines]
        for panel in radii.panels(ENTRY, every)
    }
    nominal = ["nominal, personal", "nominal, shared"]
    assert found == {
        "noise, MNIST, 4 clients": ["federated, personal", "federated, shared"],
        "noise, MNIST, 10 clients": [*nominal, "local"],
        "noise, MNIST, 100 clients": ["local"],
        "noise, CIFAR-10, 10 clients": nominal,
    }
    assert [*found] == sorted(found, key=lambda t: ("CIFAR" in t, int(t.split()[2])))


def test_among_mixtures_one_is_local() -> None:
    every = [
        (f"noise, λ={lam}", said("mnist_mixture", "personal")) for lam in (0.5, 1.0)
    ]
    (panel,) = radii.panels(ENTRY, every)
    assert [*panel.lines] == ["λ=0.5", "λ=1.0 (local)"]
    assert panel.along == "radius, pixels"


def test_a_line_a_client() -> None:
    entry = ENTRY._replace(shows=(EVERY,))
    every = [("noise, 2 clients, federated", said("c", "personal", "shared"))]
    (panel,) = radii.panels(entry, every)
    assert "federated, personal" in panel.title
    assert [*panel.lines] == ["client 0", "client 1"]
    np.testing.assert_allclose(panel.lines["client 1"].y, [0.9, 0.1])
