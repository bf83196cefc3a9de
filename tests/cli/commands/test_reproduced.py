"""What `troth reproduce` shows on screens of any width."""

import io

import pytest
from rich.console import Console

from troth.cli import tables
from troth.cli.commands import _reproduced
from troth.reproduce import judging, kept, listing, scripts

ROOT = kept.experiments()
SHELF = kept.Shelf(None, ROOT)


@pytest.fixture
def screen(monkeypatch):
    """All that is shown on a screen of so many columns."""

    def made(columns):
        text = io.StringIO()
        plain = {"highlight": False, "markup": False, "emoji": False}
        found = Console(file=text, width=columns, **plain)
        monkeypatch.setattr(tables, "console", lambda: found)
        return text

    return made


def shown(name, seeds=3):
    entry = listing.find(name)
    cells = entry.everywhere()
    judged = judging.table(entry, cells, SHELF, seeds)
    _reproduced.people(_reproduced.Shown(entry, judged, [], 1.0))


@pytest.mark.parametrize("columns", [60, 80, 120, 400])
def test_no_number_and_no_name_is_broken(screen, columns):
    text = screen(columns)
    shown("ditto/table8")
    lines = text.getvalue().splitlines()
    entry = listing.find("ditto/table8")
    rows = dict.fromkeys(cell.row for cell in entry.everywhere())
    for row in rows:
        assert [line for line in lines if line.startswith(row)], row
    (first, *_) = judging.table(entry, entry.everywhere()[:1], SHELF, 3)
    words = (f".{f'{first.mean:.3f}'[2:]}", "=")
    held = [line for line in lines if all(word in line for word in words)]
    assert held and "of the 140 cells shown" in text.getvalue()
    table = [line for line in lines if any(line.startswith(row) for row in rows)]
    assert all(len(line) <= columns for line in table)
    both = [line for line in lines if "[" in line and "]" not in line]
    assert not both  # ours and theirs in a line


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_names_of_the_list_are_whole(screen, columns):
    text = screen(columns)
    said = {"title": "a title " * 12, "data_words": "data; " * 20}
    said |= {"client_steps": 12_345_678, "seconds": 7200.0, "results": 0}
    said |= {"run": 3, "cells": 140, "last": "2026-11-17T01:02:03"}
    names = [*listing.entries()]
    _reproduced.entries([{**said, "name": name} for name in names])
    lines = text.getvalue().splitlines()
    for name in names:
        assert [line for line in lines if f"{line} ".startswith(f"{name} ")], name
    assert "3 of 140" in " ".join(text.getvalue().split())
    assert all(len(line) <= max(columns, 75) for line in lines)


def test_what_a_script_made(screen):
    assert ROOT is not None
    entry = listing.find("equivalence/figure20")
    lines = scripts.lines(entry, ROOT)
    for columns in (60, 200):
        text = screen(columns)
        _reproduced.script(entry, lines, [])
        found = text.getvalue().splitlines()
        for label, _ in lines:
            assert [line for line in found if line.startswith(label)], label
