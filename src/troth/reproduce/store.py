"""Results on disk: one compressed table per folder, and small files of newer results.

A new result is written atomically to a small file, so no result is lost if the process
is killed. `pack` moves the results of these files into the table, which is part of the
repository. Results are read from both.

A record is the result of a run. It is found by its name, such as
`table/Ditto, clean, seed 0`. Names of files are ASCII without spaces.
"""

import hashlib
import json
import lzma
import re
import unicodedata
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from troth import files
from troth.types import Refusal

RESULTS = 1
"""Version of the results, to be increased if a change of the code changes numbers.
Results of another version are ignored, and computed again."""
TABLE = "results.jsonl.xz"
LOOSE = "*~*.json"
Record = dict[str, Any]
_LEFT_OUT = ("deciles", "best10", "jain", "std", "weighted", "worst10")
_KEPT = ("accuracy_std", "accuracy_weighted", "accuracy_worst10")


class Store:
    """The results in a folder: those in its table, and those in small files."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def records(self) -> dict[str, Record]:
        """Return name → record; if a name is in both, that of the small file."""
        packed = _table(self.home / TABLE, _stamp(self.home / TABLE))
        every = (_loose(file, _stamp(file)) for file in self.loose())
        loose = {one["name"]: one for one in every if one and _current(one)}
        return _sorted(packed | loose) if loose else packed

    def loose(self) -> list[Path]:
        """Return the small files, whose results are not yet in the table."""
        try:
            return sorted(self.home.rglob(LOOSE)) if self.home.is_dir() else []
        except OSError as error:
            raise Refusal(
                f"the folder {self.home} cannot be read ({error.strerror}); give "
                "another folder with --out"
            ) from None

    def find(self, pattern: str) -> list[Record]:
        """Return the records whose names match a pattern, in the order of names."""
        every = self.records().items()
        return [record for name, record in every if fnmatchcase(name, pattern)]

    def get(self, name: str) -> Record | None:
        """Return the record with a name; None if there is none."""
        return self.records().get(name)

    def put(self, name: str, record: Mapping[str, Any]) -> Path:
        """Write a result to a small file, atomically, and return its path."""
        file = self.home / "loose" / f"{slug(name)}.json"
        with files.refused(f"the folder {file.parent}", "give another --out"):
            file.parent.mkdir(parents=True, exist_ok=True)
        own = {"name": name, "version": RESULTS}
        whole = {**own, **files.plain(dict(record)), **own}
        files.write(file, json.dumps(whole) + "\n")
        return file

    def pack(self) -> int:
        """Move the results of small files into the table, and return their number.

        Do not call this while another process writes results into the folder.
        """
        loose = self.loose()
        packed = [file for file in loose if _loose(file, _stamp(file)) is not None]
        lines = [json.dumps(one, ensure_ascii=False) for one in self.records().values()]
        if packed:
            text = "".join(f"{line}\n" for line in lines)
            with files.whole(self.home / TABLE) as table:
                table.write(lzma.compress(text.encode(), preset=9))
        for file in packed:
            file.unlink()
        return len(packed)


def named(root: Path, pattern: str) -> list[Record]:
    """Return the records that match a pattern FOLDER/NAME, with FOLDER in `root`."""
    home, _, rest = pattern.partition("/")
    return Store(root / home).find(rest)


def slug(name: str) -> str:
    """Return a name as the name of a file: readable ASCII characters and a digest."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    short = re.sub(r"[^A-Za-z0-9.=+]+", "-", plain).strip("-.")[:80]
    return f"{short}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def order(record: Record) -> list[str]:
    """Return the sort key of a record, by which names are sorted like paths."""
    return f"{record['name']}.json".split("/")


@lru_cache(maxsize=4096)
def _loose(file: Path, stamp: tuple[int, int]) -> Record | None:
    """Return the record in a small file; None if it cannot be read.

    `stamp` changes with the file, so a cached record is never outdated.
    """
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    right = isinstance(record, dict) and isinstance(record.get("name"), str)
    return record if right else None


def brief(summary: Record) -> Record:
    """Return the part of a run's summary that is stored in records."""
    return {
        name: brief(value) if isinstance(value, dict) else value
        for name, value in summary.items()
        if name in _KEPT or name.rpartition("_")[2] not in _LEFT_OUT
    }


def _stamp(file: Path) -> tuple[int, int]:
    """Return values that change when the file changes."""
    try:
        seen = file.stat()
    except OSError:
        return 0, 0
    return seen.st_mtime_ns, seen.st_size


@lru_cache(maxsize=32)
def _table(file: Path, stamp: tuple[int, int]) -> dict[str, Record]:
    """Return name → record of a table; empty if there is no such file."""
    every = _lines(file) if stamp[1] else ()
    return _sorted({record["name"]: record for record in every if _current(record)})


def _current(record: Record) -> bool:
    return record.get("version") == RESULTS


def _sorted(records: dict[str, Record]) -> dict[str, Record]:
    return {one["name"]: one for one in sorted(records.values(), key=order)}


def _lines(file: Path) -> Iterator[Record]:
    try:
        with lzma.open(file, "rt", encoding="utf-8") as opened:
            yield from map(json.loads, opened)
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        raise Refusal(
            f"{file} is not a readable table of results; restore it from the "
            "repository with git checkout"
        ) from None
