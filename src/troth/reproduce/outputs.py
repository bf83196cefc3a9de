"""Write the files of an entry: Markdown and CSV, and for a figure PNG and SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from troth import files
from troth.reproduce import figures, judging, scripts, tables
from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged
from troth.reproduce.settings import Scale


def write(
    entry: Entry, judged: Sequence[Judged], out: Path, scale: Scale = "full"
) -> list[Path]:
    """Write the files of an entry into a folder, and return their paths."""
    name = entry.name if scale == "full" else f"{entry.name}-{scale}"
    texts = tables.markdown(entry, judged), tables.as_csv(judged)
    return _written(entry, name, out, texts, lambda: figures.of_cells(entry, judged))


def of_script(entry: Entry, root: Path, out: Path) -> list[Path]:
    """Write the files of an entry that is made by a script, and return their paths.

    If the paper prints numbers, the table has the paper's layout.

    Args:
        entry: The entry.
        root: Folder experiments/.
        out: Folder to write to.
    """
    if judged := judging.of_script(entry, root):
        texts = tables.markdown(entry, judged), tables.as_csv(judged)
    else:
        lines = scripts.lines(entry, root)
        heads, rows = scripts.layout(lines)
        title, empty = f"# {entry.name}: {entry.title}", dict.fromkeys(heads)
        texts = (
            "\n".join([title, "", *tables.grid(heads, rows)]) + "\n",
            tables.plain_csv([{"label": k, **empty, **v} for k, v in lines]),
        )
    return _written(
        entry, entry.name, out, texts, lambda: figures.of_script(entry, root)
    )


def _written(
    entry: Entry,
    name: str,
    out: Path,
    texts: tuple[str, str],
    draw: Callable[[], Figure],
) -> list[Path]:
    """Write Markdown and CSV, and if the entry is a figure, pictures from `draw`."""
    stem = out / name.replace("/", "-")
    both = [stem.with_suffix(".md"), stem.with_suffix(".csv")]
    with files.refused(out, "give another folder with --out, or make room"):
        out.mkdir(parents=True, exist_ok=True)
    for file, text in zip(both, texts, strict=True):
        files.write(file, text)
    return both if entry.form == "table" else both + figures.save(draw(), stem)
