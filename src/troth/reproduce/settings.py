"""The papers' federations: their data, what stands in for them, and a small one.

They are listed in `federations.json`. A stand-in has a name of its own, and its numbers
are not judged, because they are about other data. It is trained at a scale that two CPU
cores can bear: smaller models and fewer rounds than the paper's.
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
    """Data and how they are trained on; methods and threats change the rest."""

    name: str  # for people
    data: str  # the data set's name here
    clients: int
    examples: float  # training examples per client, about; for estimates
    tree: Tree
    kept: Mapping[str, str] = MappingProxyType({})
    # method → its committed result without attackers, `{seed}` in it
    kind: Literal["original", "stand-in", "small"] = "original"


class Setting(NamedTuple):
    """A federation of a paper, and what may stand in for it."""

    name: str  # as the paper has it
    original: Federation
    stand_in: Federation | None = None
    more: tuple[str, int] = ("", 0)  # a file that the original needs besides; its lines

    def here(self, data_dir: str | None = None) -> bool:
        """Whether the original data are on this machine."""
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
        """Return what is trained here at this scale; refuse data that are not here."""
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
        why = f" (wanted for {self.name}; --cells chooses others, --scale small needs "
        why += "no files)"
        raise Refusal(_files.absent(source, data_dir, why))


def packaged(name: str) -> dict[str, Any]:
    """Return a data file of this package."""
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
"""Every federation of the papers, by the name that the papers give it."""
TEXTS: dict[str, str] = packaged("texts")
"""What the page of results, and what is printed, say in whole sentences."""
WORDS: dict[str, str] = _FOUND["words"]
"""Phrases that notes share: name → text, which may hold other names in braces."""
