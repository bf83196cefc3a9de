"""What the server shows: the list of runs, reports, and what grows in them."""

import json
import threading
from pathlib import Path
from typing import Any

from troth import files
from troth.plot._style import places
from troth.reports import cards, page
from troth.reports.live.listing import Entry, Growing, Listing, resume
from troth.runs import inspect
from troth.runs.compare import number, short

MOST = 100
"""Runs that one page may be about."""
_KEPT = 8  # reports that are kept, ready to be sent again


class Unknown(Exception):
    """There is no such thing here; says what there is."""


class Pages:
    """Pages about the runs in a folder. It only reads."""

    def __init__(self, root: Path) -> None:
        self._root, self.listing = root, Listing(root)
        self._growing: dict[Path, Growing] = {}
        self._reports: dict[Any, str] = {}
        self._alone = threading.Lock()  # matplotlib's settings are one for all threads

    def index(self) -> str:
        """The list of runs."""
        entries = self.runs()
        title = f"Runs in {self.listing.root.name}"
        heads = [*COLUMNS.values()]
        content: dict[str, Any] = {"title": title, "entries": entries, "heads": heads}
        content |= {"cells": [*COLUMNS], "label": short, "root": self._root}
        return page.rendered("list.html.j2", content, ("live.js", "script.js"))

    def runs(self) -> list[dict[str, str]]:
        """The same for the page's script."""
        return [entry._asdict() for entry in self.listing.entries()]

    def report(self, ids: list[str]) -> str:
        """The report of some runs, with what grows where one goes on."""
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
        """How some runs stand, and their curves so far."""
        found = [self._live(id_, place) for id_, place in self._places(ids).items()]
        kinds = [one.pop("personalizer") for one in found]
        for one, place in zip(found, places(kinds), strict=True):
            one["place"] = place  # as in the pictures of the report
        return found

    def _live(self, id_: str, place: Path) -> dict[str, Any]:
        entry = self.listing.entry(id_, place)
        growing = self._growing.setdefault(place, Growing(place))
        with self._alone:
            growing.look()
            points = [*growing.points]
        found: dict[str, Any] = {"id": id_, "label": short(place.name)}
        found["personalizer"] = entry.personalizer
        found |= {"state": entry.state, "metric": growing.metric, "points": points}
        total = entry.rounds.rpartition(" ")[2]
        found["total"] = int(total) if total.isdecimal() else growing.rounds
        found["command"] = resume(place) if entry.state == "stopped" else ""
        return found | {"words": _words(entry, growing)}

    def _places(self, ids: list[str]) -> dict[str, Path]:
        """Only runs that are in the list can be asked for, by their names there."""
        known = self.listing.paths()
        if not ids or len({*ids}) > MOST:
            raise Unknown(f"choose 1 to {MOST} runs")
        for id_ in ids:
            if id_ not in known:
                raise Unknown(f"there is no run {id_!r} in this folder")
        return {id_: known[id_] for id_ in dict.fromkeys(ids)}


COLUMNS = {
    "label": "run",
    "state": "state",
    "rounds": "rounds",
    "metric": "metric",
    "mean": "mean",
    "std": "std",
    "worst10": "worst 10 %",
    "shared": "shared mean",
    "personalizer": "personalizer",
    "attack": "attack",
    "aggregator": "aggregator",
    "id": "folder",
}
"""Fields of an entry, and their headings."""


def _words(entry: Entry, growing: Growing) -> str:
    """One sentence on how a run stands."""
    text = f"{short(entry.label)}: {entry.state}, {entry.rounds} rounds"
    if growing.points:
        _, own, shared = growing.points[-1]
        both = [number(v, growing.metric) for v in (own, shared)]
        text += f"; mean {growing.metric} {both[0]}, of the shared model {both[1]}"
    return text + (". To go on with it:" if entry.state == "stopped" else "")


def _stamp(place: Path) -> Any:
    """Changes whenever a file of a run does."""
    names = (files.EXPERIMENT, files.ROUNDS, files.SUMMARY, files.CLIENTS)
    found = []
    for file in (*names, "certificates.csv", "audit.csv"):
        try:
            stat = (place / file).stat()
            found.append((stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append((0, 0))
    return tuple(found)


def dumped(value: Any) -> str:
    """JSON for a browser; what is not a number is null."""
    return json.dumps(files.plain(value))
