"""The curve of a run that goes on: only what is new in its journal is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from troth import files
from troth.files import METRICS


class Growing:
    """The evaluations of one run so far.

    Args:
        place: its folder.
    """

    def __init__(self, place: Path) -> None:
        self._file = place / files.ROUNDS
        self._read, self._at = b"", 0
        self.rounds = 0
        self.metric = ""
        self.points: list[list[Any]] = []  # round, own mean, shared mean

    def look(self) -> None:
        """Read on; a journal that was cut back, by a resume, is read anew."""
        try:
            size = self._file.stat().st_size
            if size < self._at:
                self.__init__(self._file.parent)  # type: ignore[misc]
            with self._file.open("rb") as journal:
                journal.seek(self._at)
                new = journal.read(size - self._at)
        except OSError:
            return
        self._at += len(new)
        *lines, self._read = (self._read + new).split(b"\n")
        for line in lines:
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            self.rounds = int(said["round"]) + 1
            own, shared = (said["evaluation"][kind] for kind in ("personal", "shared"))
            self.metric = next(m for m in METRICS if f"{m}_mean" in own)
            both = [kind.get(f"{self.metric}_mean") for kind in (own, shared)]
            self.points.append([self.rounds, *both])
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            return  # no evaluation, or no line of ours
