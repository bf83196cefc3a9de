"""Panels of certified accuracy: one a change of inputs, data set and federation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from troth.reproduce import scripts
from troth.reproduce.certified import EVERY
from troth.reproduce.entry import Entry
from troth.reproduce.panels import Line, Panel

_LOCAL = "λ=1.0"  # of mixtures: every client trains alone

Said = dict[str, Any]


def panels(entry: Entry, every: Sequence[tuple[str, Said]]) -> Iterator[Panel]:
    """A line a way of training and model, the mean over clients; or a line a client."""
    ways = [_way(label, said) for label, said in every]
    mixed = any("λ=" in way and way != _LOCAL for way in ways)
    found: dict[tuple[str, str], dict[str, Line]] = {}
    for way, (label, said) in zip(ways, every, strict=True):
        if way == _LOCAL:
            way = f"{_LOCAL} (local)" if mixed else "local"
        at, unit = _setting(label, said), f"radius, {said['certified']['unit']}"
        for whose, model in said["certified"]["models"].items():
            own = way if "λ" in way or way == "local" else f"{way}, {whose}"
            if EVERY not in entry.shows:
                found.setdefault((at, unit), {})[own] = _line(model, model["mean"])
            elif whose == "personal":
                found[f"{at}: {own}", unit] = {
                    f"client {k}": _line(model, each["accuracy"])
                    for k, each in model["clients"].items()
                }
    for (title, unit), lines in sorted(found.items(), key=lambda item: _order(item[0])):
        yield Panel(f"{title}\ncertified accuracy", unit, lines)


def _way(label: str, said: Said) -> str:
    """How models were trained: what a label says besides change and clients.

    Where it says nothing, the folder does, such as mnist_nominal.
    """
    parts = label.rpartition(": ")[2].split(", ")[1:]
    rest = [part for part in parts if not part.endswith(" clients")]
    return ", ".join(rest) or said.get("folder", "").partition("_")[2]


def _setting(label: str, said: Said) -> str:
    """Change of inputs, data and how many clients, as far as they are known."""
    change = label.rpartition(": ")[2].partition(", ")[0]
    data = str(said.get("changes", {}).get("data", ""))
    clients = said.get("summary", {}).get("clients")
    many = f"{clients} clients" if clients else ""
    return ", ".join(filter(None, (change, scripts.DATA.get(data, data), many)))


def _order(at: tuple[str, str]) -> tuple[bool, str, int]:
    """By data set, change and number of clients."""
    parts = at[0].split(", ")
    numbers = [int(p.split()[0]) for p in parts if p.endswith(" clients")]
    return "CIFAR-10" in parts, parts[0], numbers[0] if numbers else 0


def _line(model: Said, values: Any) -> Line:
    return Line(np.array(model["radii"], float), np.array(values, float))
