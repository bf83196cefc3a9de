"""Make the pages of the server: the list of runs, and reports that show progress."""

import json
import threading
from pathlib import Path
from typing import Any

from troth import files
from troth.plot._style import places
from troth.reports import cards, page
from troth.reports.cards._reading import command
from troth.reports.live.listing import Entry, Growing, Listing
from troth.runs import inspect
from troth.runs.compare import number, short

MOST = 100
"""Largest number of runs on one page."""
_KEPT = 8  # reports kept in memory, at most


class Unknown(Exception):
    """The address names no page or run of this server."""


class Pages:
    """Pages about the runs in a folder. No file is changed."""

    def __init__(self, root: Path) -> None:
        self._root, self.listing = root, Listing(root)
        self._reports: dict[Any, str] = {}
        self._alone = threading.Lock()  # threads share matplotlib's settings

    def index(self) -> str:
        """Return the page with the list of runs."""
        content: dict[str, Any] = {"entries": self.runs(), "root": self._root}
        content |= {"title": f"Runs in {self.listing.root.name}"}
        content |= {"heads": [*COLUMNS.values()], "cells": [*COLUMNS], "label": short}
        return page.rendered("list.html.j2", content, ("base.js", "live.js"))

    def runs(self) -> list[dict[str, str]]:
        """Return the rows of the list for the page's script."""
        return [entry._asdict() for entry in self.listing.entries()]

    def report(self, ids: list[str]) -> str:
        """Return the report of some runs, with live curves if one is in progress."""
        places = self._places(ids)
        key = tuple((id_, _stamp(place)) for id_, place in places.items())
        with self._alone:
            if key not in self._reports:
                runs = inspect.opened([*places.values()])
                live = [*places] if not all(run.finished for run in runs) else []
                text = page.html(runs, cards.decks(runs), live=live, home="/")
                self._reports[key] = text
                for old in [*self._reports][:-_KEPT]:
                    del self._reports[old]
            return self._reports[key]

    def live(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return the state of some runs, and their curves so far."""
        found = [self._live(id_, place) for id_, place in self._places(ids).items()]
        kinds = [one.pop("personalizer") for one in found]
        for one, place in zip(found, places(kinds), strict=True):
            one["place"] = place  # gives the run the same color as in the report
        return found

    def _live(self, id_: str, place: Path) -> dict[str, Any]:
        entry = self.listing.entry(id_, place)
        growing = self.listing.growing(place)
        points = [*growing.points]
        found: dict[str, Any] = {"id": id_, "label": short(place.name)}
        found["personalizer"] = entry.personalizer
        found |= {"state": entry.state, "metric": growing.metric, "points": points}
        total = entry.rounds.rpartition(" ")[2]
        found["total"] = int(total) if total.isdecimal() else growing.rounds
        found["command"] = command("resume", place) if entry.state == "stopped" else ""
        return found | {"words": _words(entry, growing)}

    def _places(self, ids: list[str]) -> dict[str, Path]:
        """Find runs by their ids in the list, so that no other folder can be read."""
        known = self.listing.paths()
        if not ids or len({*ids}) > MOST:
            raise Unknown(f"give 1 to {MOST} runs")
        for id_ in ids:
            if id_ not in known:
                raise Unknown(f"there is no run {id_!r} in this folder")
        return {id_: known[id_] for id_ in dict.fromkeys(ids)}


COLUMNS = {name: name for name in ("label", *Entry._fields[2:], "id")} | {
    "label": "run",
    "worst10": "worst 10 %",
    "shared": "shared mean",
    "id": "folder",
}
"""Columns of the list: field of an entry → heading."""


def _words(entry: Entry, growing: Growing) -> str:
    """Describe the state of a run in one sentence."""
    text = f"{short(entry.label)}: {entry.state}, {entry.rounds} rounds"
    if growing.points:
        _, own, shared = growing.points[-1]
        both = [number(v, growing.metric) for v in (own, shared)]
        text += f"; mean {growing.metric} {both[0]}, shared model {both[1]}"
    return text + (". To continue:" if entry.state == "stopped" else "")


def _stamp(place: Path) -> Any:
    """Return a value that changes if a file of the run changes."""
    names = (files.EXPERIMENT, files.ROUNDS, files.SUMMARY, files.CLIENTS)
    found = []
    for file in (*names, files.CERTIFICATES, files.AUDIT):
        try:
            stat = (place / file).stat()
            found.append((stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append((0, 0))
    return tuple(found)


def dumped(value: Any) -> str:
    """Write JSON for a browser; NaN and infinity become null."""
    return json.dumps(files.plain(value))
