"""The files of an entry: tables in three forms, figures in two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from troth import folder
from troth.reproduce import curves, drawing, scripts, tables
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
    files = _texts(stem, texts)
    if entry.form != "table":
        files += drawing.save(drawing.draw(entry, judged), stem)
    return files


def of_script(entry: Entry, root: Path, out: Path) -> list[Path]:
    """The same for an entry that a script under experiments/ makes."""
    lines = scripts.lines(entry, root)
    heads, rows = scripts.layout(lines)
    title = f"{entry.name}: {entry.title}"
    empty = dict.fromkeys(["label", *heads])
    texts = {
        ".md": "\n".join([f"# {title}", "", *tables.grid(heads, rows)]) + "\n",
        ".csv": tables.plain_csv([{**empty, "label": k, **v} for k, v in lines]),
        ".tex": "\n".join([f"% {title}", *tables.tabular(heads, rows)]) + "\n",
    }
    out.mkdir(parents=True, exist_ok=True)
    stem = out / entry.name.replace("/", "-")
    files = _texts(stem, texts)
    if entry.form != "table":
        files += drawing.save(curves.draw(entry, root), stem)
    return files


def _texts(stem: Path, texts: dict[str, str]) -> list[Path]:
    files = []
    for suffix, text in texts.items():
        files.append(stem.with_suffix(suffix))
        folder.write(files[-1], text)
    return files
