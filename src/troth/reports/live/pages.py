"""Make the pages of the server: the list of runs, and reports that show progress."""

import csv
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from troth import files
from troth.config import reader
from troth.plot._style import places
from troth.reports import cards, page
from troth.reports.cards._reading import command, listed
from troth.reports.live.listing import Entry, Growing, Listing
from troth.runs import inspect
from troth.runs.compare import number, short
from troth.types import Refusal

MOST = 100
"""Largest number of runs on one page."""
_ASIDE = ("name", "engine.", "checkpoint.", "output.")  # do not change results
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
        content: dict[str, Any] = {"root": self._root}
        content |= {"title": f"Runs in {self.listing.root.name}"}
        content["setup"] = {"columns": COLUMNS, "most": MOST, "list": self.runs()}
        scripts = ("base.js", "live.js", "list.js")
        return page.rendered("list.html.j2", content, scripts)

    def runs(self, known: str = "") -> dict[str, Any]:
        """Return the rows of the list; if `known` is their version, only this."""
        rows = [
            {**entry._asdict(), "label": short(entry.label)}
            for entry in self.listing.entries()
        ]
        version = hashlib.sha256(dumped(rows).encode()).hexdigest()[:16]
        return {"version": version, "runs": None if version == known else rows}

    def settings(self, ids: list[str]) -> dict[str, Any]:
        """Return the settings that differ between runs, as text.

        A setting that only some methods have counts if it differs between these.
        """
        own = {id_: _settings(place) for id_, place in self._places(ids).items()}
        names = dict.fromkeys(key for each in own.values() for key in each)
        keys = [k for k in names if len({o[k] for o in own.values() if k in o}) > 1]
        rows = {id_: {k: o[k] for k in keys if k in o} for id_, o in own.items()}
        return {"keys": keys, "runs": rows}

    def clients(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return the result of every client on its test data, for finished runs."""
        found = []
        for id_, place in self._places(ids).items():
            try:
                table = inspect.clients(place / files.CLIENTS)
            except (OSError, ValueError, KeyError, csv.Error):
                raise Unknown(
                    f"{id_} has no {files.CLIENTS} that can be read"
                ) from None
            metric = next(m for m in files.METRICS if m in table)
            one = {"id": id_, "metric": metric, "values": table[metric]}
            found.append({**one, "malicious": table["malicious"] == 1})
        return found

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
        found: dict[str, Any] = {"id": id_, "label": short(place.name)}
        found |= {k: getattr(entry, k) for k in ("personalizer", "state", "group")}
        found |= {"metric": growing.metric, "points": [*growing.points]}
        total = entry.rounds.rpartition(" ")[2]
        found["total"] = int(total) if total.isdecimal() else growing.rounds
        ended = entry.state not in _DONE
        found["command"] = command("resume", place) if ended else ""
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


COLUMNS = {
    "label": "run",
    "state": "state",
    "begun": "begun",
    "rounds": "rounds",
    "rate": "rate",
    "left": "time left",
    "curve": "over rounds",
    "metric": "metric",
    "mean": "mean",
    "std": "std",
    "worst10": "worst 10 %",
    "shared": "shared mean",
    "seconds": "seconds",
    "personalizer": "personalizer",
    "attack": "attack",
    "aggregator": "aggregator",
    "id": "folder",
}
"""Columns of the list: field of an entry → heading."""


def _settings(place: Path) -> dict[str, str]:
    """Return dotted key → value of an experiment file; {} if it cannot be read."""
    try:
        flat = reader.differences(reader.read(place / files.EXPERIMENT), {})
    except (OSError, ValueError, RecursionError, Refusal):
        return {}
    return {k: str(v) for k, (v, _) in flat.items() if not k.startswith(_ASIDE)}


def _words(entry: Entry, growing: Growing) -> str:
    """Describe the state of a run in a few sentences."""
    text = f"{short(entry.label)}: {entry.state}, {entry.rounds} rounds"
    if entry.rate != "–":
        text += f", {entry.rate}, {entry.left} left"
    if growing.points:
        _, own, shared = growing.points[-1]
        both = [number(v, growing.metric) for v in (own, shared)]
        text += f"; mean {growing.metric} {both[0]}, shared model {both[1]}"
    text += "".join(f". {part}" for part in _round(growing.last))
    if entry.state == "failed":
        text += f". Error: {entry.why}"
    if entry.state == "killed":
        text += ". The process ended without a message, or trains on another machine"
    return text + (". To continue:" if entry.state not in _DONE else "")


_DONE = ("finished", "running")  # states from which a run cannot be continued


def _round(record: dict[str, Any]) -> list[str]:
    """Describe who took part in the last round, and whose update was not used."""
    lists: dict[str, Any] = {"cohort": record.get("cohort")}
    dropped = record.get("dropped")
    if isinstance(dropped, dict):
        lists |= {f"dropped by {rule}": ids for rule, ids in dropped.items()}
    lists |= {key: record.get(key) for key in ("absent", "cut", "clipped")}
    parts = []
    for key, ids in lists.items():
        known = [k for k in ids if isinstance(k, int)] if isinstance(ids, list) else []
        parts += [f"{key}: {listed(np.array(known))}"] if known else []
    return [f"Round {record['round'] + 1}: {'; '.join(parts)}"] if parts else []


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
