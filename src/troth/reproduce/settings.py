"""The federations of the papers, substitutes for them, and a small federation.

They are listed in `federations.json`. A substitute is used if the data of a paper are
not on this machine. Its results are not judged, because they are about other data. It
has a smaller model and fewer rounds than the paper, so two CPU cores can train it.
"""

import json
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from troth.data import catalogue
from troth.data.datasets import _files
from troth.types import Refusal

Tree = dict[str, Any]
"""The sections of an experiment."""
Scale = Literal["full", "small"]


class Federation(NamedTuple):
    """Data and training settings; methods and threats change the other sections."""

    name: str  # name in tables
    data: str  # name of the data set
    clients: int  # number of clients
    examples: float  # approximate number of training examples per client
    tree: Tree
    kept: Mapping[str, str] = MappingProxyType({})
    # method → name of its result without an attack in the repository, with `{seed}`
    kind: Literal["original", "stand-in", "small"] = "original"


class Setting(NamedTuple):
    """A federation of a paper, and a substitute if there is one."""

    name: str  # name in the paper
    original: Federation
    stand_in: Federation | None = None
    more: tuple[str, int] = ("", 0)  # another file of the original data; its lines

    def here(self, data_dir: str | None = None) -> bool:
        """Return whether the original data are on this machine."""
        entry = catalogue.entry(self.original.data, data_dir)
        if entry.source is None or entry.place is None:
            return entry.source is None
        name, lines = self.more
        file = entry.place / name
        if not name or not lines or not file.is_file():
            return not name or file.is_file()
        with file.open("rb") as opened:
            return sum(1 for _ in opened) >= lines

    def choose(self, scale: Scale, data_dir: str | None = None) -> Federation:
        """Return the federation for a scale: small, original or substitute.

        Raise Refusal if neither original nor substitute data are on this machine.
        """
        if scale == "small":
            return SMALL
        if self.here(data_dir):
            return self.original
        other = self.stand_in
        if other is not None and catalogue.entry(other.data, data_dir).place:
            return other
        missing = other or self.original
        source = catalogue.entry(missing.data, data_dir).source
        assert source is not None
        why = f" (needed for {self.name}; choose other cells with --cells, or use "
        why += "--scale small, which needs no files)"
        raise Refusal(_files.absent(source, data_dir, why))


def packaged(name: str) -> dict[str, Any]:
    """Return the content of a JSON file of this package."""
    file = resources.files("troth.reproduce").joinpath(f"{name}.json")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


_FOUND = packaged("federations")
SMALL = Federation(**_FOUND["small"])
SETTINGS = {
    name: Setting(
        name,
        Federation(**one["original"]),
        Federation(**one["stand_in"]) if "stand_in" in one else None,
        tuple(one.get("more", ("", 0))),
    )
    for name, one in _FOUND["settings"].items()
}
"""Name in the papers → setting."""
TEXTS: dict[str, str] = packaged("texts")
"""Name → sentences for tables and for the command `troth reproduce`."""
WORDS: dict[str, str] = _FOUND["words"]
"""Name → phrase for notes. A note or phrase may contain names in braces."""
