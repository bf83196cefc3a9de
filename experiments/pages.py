"""The command line of a page: its tables to the screen, its pictures to files.

A script gives `main` what prints its tables and a function for each of its pictures.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Pictures = Mapping[str, Callable[[], plt.Figure]]
"""The name of a file, without its ending → what draws it."""


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def main(
    script: str | None,
    place: Path,
    tables: Callable[[], str],
    pictures: Pictures,
    dpi: int = 150,
) -> None:
    """The command line.

    Args:
        script: its docstring.
        place: the folder that pictures are written to.
        tables: all of them, as Markdown.
        pictures: drawn with --draw.
        dpi: of pictures.
    """
    parser = argparse.ArgumentParser(description=(script or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="the pictures, too")
    if parser.parse_args().draw:
        for name, draw in pictures.items():
            made = draw()
            made.savefig(place / f"{name}.png", dpi=dpi)
            plt.close(made)
    print(tables())
