"""The page of results: what reproduces and what does not, from committed results."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from troth.reproduce import (
    SEEDS,
    headlines,
    judging,
    misses,
    notes,
    papers,
    scripts,
    tables,
)
from troth.reproduce.entry import Entry
from troth.reproduce.kept import Shelf, spent
from troth.reproduce.listing import entries
from troth.reproduce.settings import TEXTS

_RULE = f"{judging.RULE}\n\n{tables.LEGEND}\n"


def page(root: Path) -> str:
    """The whole page."""
    shelf, parts, why = Shelf(None, root), [TEXTS["head"], _RULE], notes.read(root)
    every = [_seen(entry, shelf, root) for entry in entries().values()]
    parts += _glance(every, why)
    for paper in papers.PAPERS:
        parts += ["", f"## {papers.read(paper)['title']}", ""]
        own = [one for one in every if one.entry.paper == paper]
        for one in (one for one in own if one):
            parts += _section(one, shelf, why, root)
        idle = [f"`{one.entry.name}`" for one in own if not one]
        if idle:
            parts += [f"Not run: {', '.join(idle)}.", ""]
        if paper == "ditto":
            parts += _headlines(shelf)
    return "\n".join(parts).rstrip() + "\n"


class _Seen(NamedTuple):
    """What there is of an entry; false where that is nothing."""

    entry: Entry
    found: list[judging.Judged]  # cells that were run
    made: scripts.Lines
    beside: list[judging.Judged]  # a script's numbers, and the paper's

    def __bool__(self) -> bool:
        return bool(self.found or self.made)

    @property
    def anchor(self) -> str:
        """What links to its section name."""
        return self.entry.name.replace("/", "-")


def _seen(entry: Entry, shelf: Shelf, root: Path) -> _Seen:
    every = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    found = [one for one in every if one.seeds]
    made = scripts.lines(entry, root)
    return _Seen(entry, found, made, judging.of_script(entry, root))


def _glance(every: list[_Seen], why: notes.Notes) -> Iterator[str]:
    """All of it, a line each."""
    rows = []
    for one in every:
        if not one:
            idle = f"not run: {one.entry.note}" if one.entry.note else "not run"
            rows.append([f"`{one.entry.name}`", one.entry.title, idle, "–"])
            continue
        good, judged = judging.share([*one.found, *one.beside])
        ran = f"{len(one.found)} of {len(one.entry.everywhere())} cells"
        ran = ran if one.found else "by a script"
        verdicts = [key for key in why.get(one.entry.name, {}) if key in notes.HOLDS]
        share = f"{good} of {judged}" if judged else "".join(verdicts) or "–"
        name = f"[`{one.entry.name}`](#{one.anchor})"
        rows.append([name, one.entry.title, ran, share])
    if any(every):
        heads = ["", "run", "reproduced of what is judged; else what the paper says"]
        yield "\n## At a glance\n"
        yield "\n".join(tables.grid(heads, rows)) + "\n"


def _section(one: _Seen, shelf: Shelf, why: notes.Notes, root: Path) -> Iterator[str]:
    """What was run of an entry."""
    entry, found, made = one.entry, one.found, one.made
    yield f'<a id="{one.anchor}"></a>\n'
    yield f"### `{entry.name}`: {entry.title}\n"
    if entry.note:
        yield f"{entry.note[0].upper()}{entry.note[1:]}.\n"
    if found:
        yield from _cells(entry, found, spent(shelf, entry.everywhere(), SEEDS))
        yield from misses.off(entry, found, root)
        yield from misses.readings(found)
    if made:
        yield from _script(one)
    for cell, text in why.get(entry.name, {}).items():
        yield f"- *{cell}*: {notes.filled(text, entry.name, shelf, SEEDS)}"
    yield ""


def _cells(entry: Entry, found: list[judging.Judged], took: float) -> Iterator[str]:
    whole = len(entry.everywhere())
    good, all_ = judging.share(found)
    yield (
        f"Theirs: {tables.where(entry)}. Run: {len(found)} of {whole} cells; "
        f"reproduced: {good} of {all_} judged. {_seeds(found)} The runs took "
        f"{took:,.0f} s in all.\n"
    )
    for title, columns, rows in tables.layout(found):
        yield f"*{title}*\n"
        yield "\n".join(tables.grid(columns, rows)) + "\n"
    several = len({one.cell.federation.name for one in found}) > 1
    for ours, ranks in judging.order(found).items():
        words = (f"{column} {tables.number(rank)}" for column, rank in ranks.items())
        of = f", ours {ours}" if several else ""
        yield f"Order of the methods, Spearman with theirs{of}: {', '.join(words)}.\n"


def _seeds(found: list[judging.Judged]) -> str:
    """How many seeds its cells have."""
    counts = sorted(Counter(one.seeds for one in found).items())
    if len(counts) == 1:
        return f"Seeds: {counts[0][0]}."
    return f"Seeds: {', '.join(f'{n} in {many} cells' for n, many in counts)}."


def _script(one: _Seen) -> Iterator[str]:
    """What a script found; where the paper prints numbers, beside them."""
    home = one.entry.results[0].partition("/")[0]
    script = " ".join(one.entry.script)
    made = f"Made by `experiments/{script}`" if script else f"In experiments/{home}"
    yield f"{made}:\n"
    if not one.beside:
        heads, rows = scripts.layout(one.made)
        yield "\n".join(tables.grid(heads, rows)) + "\n"
        return
    good, all_ = judging.share(one.beside)
    yield (
        f"Theirs: {tables.where(one.entry)}. Reproduced: {good} of {all_} judged. "
        f"{_seeds([cell for cell in one.beside if cell.seeds])}\n"
    )
    for title, columns, rows in tables.layout(one.beside):
        yield f"*{title}*\n"
        yield "\n".join(tables.grid(columns, rows)) + "\n"


def _headlines(shelf: Shelf) -> list[str]:
    """The paper's two sentences, for Fashion-MNIST."""
    rows = []
    for (ditto, whose), found in headlines.both(shelf, SEEDS).items():
        name = f"{ditto}, {whose}"
        if found is None:
            rows.append([name, "not all cells are run", "", ""])
            continue
        gain = f"{tables.number(found.gain, sign=True)} over {found.strongest}"
        less = f"{100 * found.less_variance:.0f} %"
        if found.between:  # deviations are printed with two digits
            least, most = (f"{100 * value:.0f}" for value in found.between)
            less += f" (by rounding {least} to {most} %)"
        more = tables.number(found.more_accuracy, sign=True)
        rows.append([name, gain, less, more])
    heads = ["over the strongest robust rule, mean of nine attacks"]
    heads += ["less variance than TERM, clean", "more accuracy than TERM, clean"]
    return [TEXTS["headlines"], "\n".join(tables.grid(heads, rows)), ""]
