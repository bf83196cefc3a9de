"""A result: what a file says of a run, believed only where it is whole."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from troth.reproduce.entry import Cell

SAME = 1e-4
"""Curves are kept with five digits."""
_SHARES = ("accuracy_weighted", "accuracy_mean", "accuracy_std")
_COUNTS = ("clients", "malicious", "seconds", "client_steps")


class Result(NamedTuple):
    """What a run found, and when and with what it ran."""

    file: Path
    said: dict[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        """Over benign clients, as a run's `summary.json`."""
        found: dict[str, Any] = self.said["summary"]
        return found

    def number(self, cell: Cell, metric: str) -> float:
        """Of a cell: accuracy_<metric> of the models that it is about."""
        at = self.summary
        for part in cell.whose:
            at = at[part]
        return float(at[f"accuracy_{metric}"])

    def has(self, cell: Cell) -> bool:
        """Whether it says what a cell is about."""
        at: Any = self.summary
        for part in cell.whose:
            at = _below(at, part)
        names = (f"accuracy_{metric}" for metric in (cell.metric, "std"))
        return all(_number(_below(at, name)) for name in names)

    def late(self, cell: Cell) -> tuple[float, float] | None:
        """The least and the most of its number in the last fifth of the rounds.

        As far as that was looked at; None where it was not.
        """
        way = self.way(cell)
        last = [value for r, value in way.items() if r >= late(way)]
        return (min(last), max(last)) if len(last) > 2 else None

    def way(self, cell: Cell) -> dict[int, float]:
        """Its number after the rounds at which that was looked at.

        What is trained after the last round (fine-tuning) was not looked at on the way:
        there the last look is not the number.
        """
        curve = self.said.get("curve", {})
        values = curve.get(f"{cell.whose[0]}_{cell.metric}")
        if len(cell.whose) > 1 or not values:
            return {}
        own = abs(values[-1] - self.number(cell, cell.metric)) < SAME
        return dict(zip(curve["round"], values, strict=True)) if own else {}

    @property
    def valid(self) -> float:
        """By which choices are made: benign clients' own models, validation data.

        Where the split has none, test data: so do the Ditto authors with Fashion-MNIST,
        whose best λ in Table 4 is in every column the best of Table 8.
        """
        if "valid" in self.summary:
            return float(self.summary["valid"]["personal"]["accuracy_mean"])
        return float(self.summary["personal"]["accuracy_weighted"])


def late(way: Mapping[int, float]) -> float:
    """The round with which the last fifth begins."""
    return 0.8 * max(way, default=1)


def read(file: Path, named: str | None = None) -> Result | None:
    """The result in a file; None where that is none, or is another's.

    Args:
        file: JSON: a result, or the bare summary of a run.
        named: the key that the file's name promises; None: its name promises none.
    """
    try:
        said = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or named not in (None, said.get("key")):
        return None
    if named is None and "summary" not in said:
        said = {"summary": said}
    texts = all(isinstance(said.get(name, ""), str) for name in ("code", "when"))
    whole = texts and _summary(said.get("summary")) and _curve(said.get("curve", {}))
    return Result(file, said) if whole else None


def _summary(said: object) -> bool:
    """Whether it is one: counts, and accuracies of both models, all of them numbers."""
    if not isinstance(said, dict):
        return False
    counts: list[Any] = [said.get(name) for name in _COUNTS]
    if not all(_number(count) and count >= 0 for count in counts):
        return False
    models = [said.get("personal"), said.get("shared")]
    models += [_below(said["valid"], "personal")] if "valid" in said else []
    return said["clients"] > said["malicious"] and all(map(_model, models))


def _below(said: object, name: str) -> object:
    return said.get(name) if isinstance(said, dict) else None


def _model(said: object) -> bool:
    """Whether it says what shares of examples models get right."""
    if not isinstance(said, dict):
        return False
    shares: list[Any] = [said.get(name) for name in _SHARES]
    return all(_number(share) and 0 <= share <= 1 for share in shares)


def _curve(said: object) -> bool:
    """Whether all its columns are numbers, one a look."""
    if not isinstance(said, dict):
        return False
    columns = said.values()
    if not all(isinstance(c, list) and all(map(_number, c)) for c in columns):
        return False
    rounds = said.get("round", [])
    return all(len(column) == len(rounds) for column in columns)


def _number(value: Any) -> bool:
    """Whether it is a finite number; a truth is none."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    return right and math.isfinite(value)
