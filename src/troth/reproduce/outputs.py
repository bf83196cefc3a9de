"""The files of an entry: tables in three forms, figures in two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from troth import folder
from troth.reproduce import drawing, tables
from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged


def write(entry: Entry, judged: Sequence[Judged], out: Path) -> list[Path]:
    """Write them into a folder, each whole or not at all; which they are."""
    out.mkdir(parents=True, exist_ok=True)
    stem = out / entry.name.replace("/", "-")
    texts = {
        ".md": tables.markdown(entry, judged),
        ".csv": tables.as_csv(judged),
        ".tex": tables.latex(entry, judged),
    }
    files = []
    for suffix, text in texts.items():
        files.append(stem.with_suffix(suffix))
        folder.write(files[-1], text)
    if entry.form != "table":
        files += drawing.save(drawing.draw(entry, judged), stem)
    return files
