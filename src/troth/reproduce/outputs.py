"""The files of an entry: tables as Markdown and CSV, figures as PNG and SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from troth import files as folder
from troth.reproduce import curves, drawing, judging, scripts, tables
from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged
from troth.reproduce.settings import Scale
from troth.types import Refusal


def write(
    entry: Entry, judged: Sequence[Judged], out: Path, scale: Scale = "full"
) -> list[Path]:
    """Write them into a folder, each whole or not at all; which they are."""
    name = entry.name + ("" if scale == "full" else f"-{scale}")
    texts = _beside(entry, judged)
    return _written(entry, name, out, texts, lambda: drawing.draw(entry, judged))


def of_script(entry: Entry, root: Path, out: Path) -> list[Path]:
    """The same for an entry that a script under experiments/ makes.

    Where the paper prints numbers, ours stand beside them in the paper's layout.
    """
    judged = judging.of_script(entry, root)
    texts = _beside(entry, judged) if judged else _alone(entry, root)
    return _written(entry, entry.name, out, texts, lambda: curves.draw(entry, root))


def _beside(entry: Entry, judged: Sequence[Judged]) -> dict[str, str]:
    """Texts by suffix: ours beside theirs."""
    return {
        ".md": tables.markdown(entry, judged),
        ".csv": tables.as_csv(judged),
    }


def _alone(entry: Entry, root: Path) -> dict[str, str]:
    """The same of a script's numbers, where the paper prints none."""
    lines = scripts.lines(entry, root)
    heads, rows = scripts.layout(lines)
    title = f"{entry.name}: {entry.title}"
    empty = dict.fromkeys(["label", *heads])
    return {
        ".md": "\n".join([f"# {title}", "", *tables.grid(heads, rows)]) + "\n",
        ".csv": tables.plain_csv([{**empty, "label": k, **v} for k, v in lines]),
    }


def _written(
    entry: Entry,
    name: str,
    out: Path,
    texts: dict[str, str],
    draw: Callable[[], Figure],
) -> list[Path]:
    """Texts by suffix, and what is drawn where the entry is a figure."""
    stem, files = out / name.replace("/", "-"), list[Path]()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for suffix, text in texts.items():
            files.append(stem.with_suffix(suffix))
            folder.write(files[-1], text)
        return files + (drawing.save(draw(), stem) if entry.form != "table" else [])
    except OSError as error:
        raise Refusal(
            f"{error.filename2 or error.filename or out} cannot be written "
            f"({error.strerror}); give another folder with --out, or make room"
        ) from None
