"""An entry in a line: the data it needs, what it takes, what of it has been run."""

from __future__ import annotations

from typing import Any

from troth.data import catalogue
from troth.reproduce import SEEDS, costs, scripts
from troth.reproduce.entry import Entry
from troth.reproduce.kept import Shelf
from troth.reproduce.settings import Setting


def of(entry: Entry, shelf: Shelf, data_dir: str | None = None) -> dict[str, Any]:
    """All that the list says of an entry."""
    data = [_data(setting, data_dir) for setting in entry.settings]
    data += [_named(name, data_dir) for name in entry.data]
    cells = entry.everywhere()
    found = [shelf.settled(cell, SEEDS) for cell in cells]
    cost = costs.cost(cells, shelf) if cells else None
    made = scripts.results(entry, shelf.root) if shelf.root else []
    moments = [r.said["when"] for some in found for r in some if r.said.get("when")]
    if made and not moments and shelf.root:
        moments = [when for when in [scripts.committed(entry, shelf.root)] if when]
    printed = entry.printed
    return {
        "name": entry.name,
        "title": entry.title,
        "where": printed.where if printed else None,
        "form": entry.form,
        "data": data,
        "data_words": "; ".join(one["words"] for one in data) or "–",
        "cells": len(cells),
        "client_steps": cost.client_steps if cost else entry.work[0],
        "seconds": cost.seconds if cost else entry.work[1],
        "time": _time(cost),
        "script": " ".join(entry.script) or None,
        "run": sum(bool(some) for some in found),
        "results": len(made),
        "last": max(moments, default=None),
        "note": entry.note or None,
    }


def _time(cost: costs.Cost | None) -> str:
    """How the time was come by."""
    if cost is None:
        return "rough, on two CPU cores"
    return "measured speed" if cost.measured else "rough"


def _data(setting: Setting, data_dir: str | None) -> dict[str, Any]:
    """Whether a setting's data are here, and what stands in if not."""
    here, other = setting.here(data_dir), setting.stand_in
    stand_in = None if here or other is None else other.name
    there = other is not None and bool(catalogue.entry(other.data, data_dir).place)
    words = setting.name if here else f"{setting.name}: not here"
    if stand_in:
        words = f"{stand_in} for {setting.name}" + ("" if there else ": not here")
    return {
        "name": setting.name,
        "here": here,
        "stand_in": stand_in,
        "stand_in_here": there if stand_in else None,
        "words": words,
    }


def _named(name: str, data_dir: str | None) -> dict[str, Any]:
    """A data set that a script needs."""
    here = catalogue.entry(name, data_dir).place is not None
    words = name if here else f"{name}: not here"
    said = {"name": name, "here": here, "words": words}
    return {**said, "stand_in": None, "stand_in_here": None}
