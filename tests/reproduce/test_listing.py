"""Every table and figure of the papers, by name."""

from __future__ import annotations

import pytest

from troth.reproduce import listing
from troth.types import Refusal

ENTRIES = listing.entries()


WANTED = {
    *(f"ditto/table{n}" for n in range(2, 12)),
    *(f"ditto/figure{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9)),
    *(f"fmtl/table{n}" for n in (1, 3, 4, 5, 6, 7)),
    *(f"fmtl/figure{n}" for n in range(1, 5)),
    "spurious/table1",
    *(f"spurious/figure{n}" for n in range(4, 9)),
    *(f"certified/figure{n}" for n in range(1, 11)),
    "equivalence/table1",
    *(f"equivalence/figure{n}" for n in range(1, 21)),
}


def test_all_of_them_are_there() -> None:
    assert {*ENTRIES} == WANTED


def test_unknown_targets_name_the_nearest() -> None:
    with pytest.raises(Refusal, match="nearest are .*ditto/table8"):
        listing.find("ditto/tabel8")
    with pytest.raises(Refusal, match="nearest are ditto/table8"):
        listing.find("Ditto/TABLE8 ")
    with pytest.raises(Refusal, match="nearest are fmtl/table1, fmtl/table3"):
        listing.find("fmtl")
    with pytest.raises(Refusal, match="troth reproduce lists all of them"):
        listing.find("resnet")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ditto/figure4", "the nearest are ditto/figure3, ditto/figure5; troth"),
        ("ditto/figure99", "the nearest are ditto/figure9, ditto/figure8; troth"),
        ("spurious/table7", "the nearest are spurious/table1; troth"),
        ("ditto/", f"{', '.join(n for n in ENTRIES if n.startswith('ditto/'))}; troth"),
    ],
)
def test_the_nearest_are_of_the_same_paper_and_kind(name: str, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        listing.find(name)
    assert words in str(refusal.value)


def test_forms_of_a_letter_do_not_matter() -> None:
    assert listing.find("\u00a0ditto/table8 ") == ENTRIES["ditto/table8"]
    assert listing.find("ｄitto/table８") == ENTRIES["ditto/table8"]
