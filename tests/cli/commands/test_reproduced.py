"""What `troth reproduce` shows on screens of any width."""

import io

import pytest
from rich.console import Console

from troth.cli import tables
from troth.cli.commands import reproduce
from troth.reproduce import judging, kept, listing, scripts

ROOT = kept.experiments()
SHELF = kept.Shelf(None, ROOT)
PLAIN = {"markup": False, "emoji": False}


@pytest.fixture
def screen(monkeypatch):
    """All that is shown on a screen of so many columns."""

    def made(columns):
        found = Console(file=io.StringIO(), width=columns, highlight=False, **PLAIN)
        monkeypatch.setattr(tables, "console", lambda *_, **__: found)
        return found.file

    return made


@pytest.mark.parametrize("columns", [60, 80, 120, 400])
def test_no_number_and_no_name_is_broken(screen, columns):
    text, entry = screen(columns), listing.find("ditto/table8")
    cells = entry.everywhere()
    judged = judging.table(entry, cells, SHELF, 3)
    reproduce.people(entry, judged, [], 1.0)
    lines = text.getvalue().splitlines()
    rows = {cell.row for cell in cells}
    assert [row for row in rows if not any(x.startswith(row) for x in lines)] == []
    words = (f".{f'{judged[0].mean:.3f}'[2:]}", "=")
    held = [line for line in lines if all(word in line for word in words)]
    assert held and "of the 140 cells shown" in text.getvalue()
    table = [line for line in lines if line.startswith(tuple(rows))]
    assert all(len(line) <= columns for line in table)
    assert not [x for x in lines if "[" in x and "]" not in x]  # ours beside theirs


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_names_of_the_list_are_whole(screen, columns):
    text = screen(columns)
    said = {"title": "a title " * 12, "data_words": "data; " * 20}
    said |= {"client_steps": 12_345_678, "seconds": 7200.0, "results": 0}
    said |= {"run": 3, "cells": 140, "last": "2026-11-17T01:02:03"}
    names = [*listing.entries()]
    reproduce._entries([{**said, "name": name} for name in names])
    lines = text.getvalue().splitlines()
    assert {*names} <= {line.split(" ")[0] for line in lines}
    assert "3 of 140" in " ".join(text.getvalue().split())
    assert all(len(line) <= max(columns, 75) for line in lines)


def test_what_a_script_made(screen):
    assert ROOT is not None
    entry = listing.find("equivalence/figure20")
    lines = scripts.lines(entry, ROOT)
    for columns in (60, 200):
        text = screen(columns)
        reproduce._lines(entry, lines, [])
        found = text.getvalue().splitlines()
        for label, _ in lines:
            assert [line for line in found if line.startswith(label)], label
