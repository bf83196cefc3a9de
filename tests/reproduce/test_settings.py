"""What stands in where data cannot be had."""

from __future__ import annotations

from troth.reproduce import listing

ENTRIES = listing.entries()


def test_what_stands_in_never_has_the_name_of_the_original() -> None:
    every = [s for entry in ENTRIES.values() for s in entry.settings]
    for setting in every:
        other = setting.stand_in
        if other is not None:
            assert other.kind == "stand-in" and other.name != setting.original.name
            assert setting.original.kind == "original"
