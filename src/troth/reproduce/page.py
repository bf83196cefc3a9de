"""docs/results.md: what reproduces and what does not, from committed results alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from troth.reproduce import headlines, judging, notes, papers, scripts, tables
from troth.reproduce.entry import Entry
from troth.reproduce.kept import Shelf, spent
from troth.reproduce.listing import entries

SEEDS = 3
_HEAD = """# Results

*Made by `troth reproduce --page docs/results.md` from the files under
[experiments/](../experiments); a test makes it again. Nothing is here that was not run.
[How to run it](reproduce.md).*

"""
_RULE = f"{judging.RULE}\n\n{tables.LEGEND}\n"


def page(root: Path) -> str:
    """The whole page.

    Args:
        root: the folder of experiments.
    """
    shelf, parts, why = Shelf(None, root), [_HEAD, _RULE], notes.read(root)
    every = [_seen(entry, shelf, root) for entry in entries().values()]
    parts += _glance([one for one in every if one])
    for paper in papers.PAPERS:
        parts += ["", f"## {papers.title(paper)}", ""]
        own = [one for one in every if one.entry.paper == paper]
        parts += [text for one in own if one for text in _section(one, shelf, why)]
        idle = [f"`{one.entry.name}`" for one in own if not one]
        if idle:
            parts += [f"Not run: {', '.join(idle)}.", ""]
        if paper == "ditto":
            parts += _headlines(shelf)
    return "\n".join(parts).rstrip() + "\n"


class _Beside(NamedTuple):
    """A number of a script's, and the paper's."""

    name: str
    ours: float
    theirs: float
    error: float  # standard error of ours over seeds; nan for one

    @property
    def off(self) -> float:
        """Ours − theirs."""
        return self.ours - self.theirs

    @property
    def verdict(self) -> judging.Verdict:
        """By the rule."""
        return judging.verdict(self.off, self.error)


class _Seen(NamedTuple):
    """What there is of an entry; false where that is nothing."""

    entry: Entry
    found: list[judging.Judged]  # cells that were run
    made: scripts.Lines
    beside: list[_Beside]  # a script's numbers, the paper's

    def __bool__(self) -> bool:
        return bool(self.found or self.made)

    @property
    def anchor(self) -> str:
        """What links to its section name."""
        return self.entry.name.replace("/", "-")


def _seen(entry: Entry, shelf: Shelf, root: Path) -> _Seen:
    every = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    beside, printed = list[_Beside](), entry.printed
    if entry.numbers and printed and (ours := entry.numbers(root)):
        for (part, row, column), values in ours.items():
            theirs = printed.part(part).at(row, column)
            assert theirs is not None
            mean, _, error = judging.spread(values)
            beside.append(_Beside(f"{row}, {column}", mean, theirs.mean, error))
    found = [one for one in every if one.seeds]
    return _Seen(entry, found, scripts.lines(entry, root), beside)


def _glance(every: list[_Seen]) -> Iterator[str]:
    """All that was run, a line each."""
    rows = []
    for one in every:
        good, judged = judging.share(one.found)
        good += [number.verdict for number in one.beside].count("reproduced")
        judged += len(one.beside)
        ran = f"{len(one.found)} of {len(one.entry.everywhere())} cells"
        ran = ran if one.found else "by a script"
        share = f"{good} of {judged}" if judged else "–"
        name = f"[`{one.entry.name}`](#{one.anchor})"
        rows.append([name, one.entry.title, ran, share])
    if rows:
        heads = ["", "run", "reproduced of what is judged"]
        yield "\n## At a glance\n"
        yield "\n".join(tables.grid(heads, rows)) + "\n"


def _section(one: _Seen, shelf: Shelf, why: notes.Notes) -> Iterator[str]:
    """What was run of an entry."""
    entry, found, made = one.entry, one.found, one.made
    yield f'<a id="{one.anchor}"></a>\n'
    yield f"### `{entry.name}`: {entry.title}\n"
    if entry.note:
        yield f"{entry.note[0].upper()}{entry.note[1:]}.\n"
    if found:
        yield from _cells(entry, found, spent(shelf, entry.everywhere(), SEEDS))
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
        f"reproduced: {good} of {all_} judged. The runs took {took:,.0f} s in all.\n"
    )
    for title, columns, rows in tables.layout(found):
        yield f"*{title}*\n"
        yield "\n".join(tables.grid(columns, rows)) + "\n"
    ranks = judging.order(found)
    if ranks:
        words = (f"{column} {tables.number(rank)}" for column, rank in ranks.items())
        yield f"Order of the methods, Spearman with theirs: {', '.join(words)}.\n"
    yield from _misses(found)
    yield from _readings(found)


def _misses(found: list[judging.Judged]) -> Iterator[str]:
    """What judged cells that are off went through in their last rounds."""
    known = [one for one in found if one.missed and one.late]
    if not known:
        return
    draws = judging.swings(found)
    yield (
        f"Cells that are off and were looked at on the way: {len(known)}; in "
        f"{len(draws)} of them ours would be reproduced after some look in the last "
        "fifth of the rounds, so that the last is a draw. *At least* and *at most*: "
        "ours in that fifth. *Inside*: after how many of the rounds at which it was "
        "looked at it would be reproduced:\n"
    )
    rows = []
    for one in known:
        assert one.late is not None and one.theirs is not None
        numbers = [one.mean, *one.late, one.theirs.mean]
        looks = f"{len(judging.inside(one))} of {len(one.way)}"
        said = "a draw" if one in draws else ""
        name = f"{one.cell.row}, {one.cell.column}"
        rows.append([name, *(tables.number(value) for value in numbers), looks, said])
    heads = ["ours", "at least", "at most", "theirs", "inside", ""]
    yield "\n".join(tables.grid(heads, rows)) + "\n"


def _readings(found: list[judging.Judged]) -> Iterator[str]:
    """How many cells of a row would be reproduced after fewer rounds."""
    known = judging.looked_at(found)
    off = dict.fromkeys(one.cell.row for one in known if one.missed)
    parts = {row: [one for one in known if one.cell.row == row] for row in off}
    rows: list[list[str]] = []
    for whose in ("shared", "personal"):
        models = [one for one in known if one.cell.whose[0] == whose]
        if 0 < len(models) < len(known):
            parts[f"all {whose} models"] = models
    for name, own in (parts | {"all that were looked at": known}).items():
        if not (read := judging.readings(own)):  # they were looked at differently
            continue
        last, most = read[max(read)], max(read.values())
        best = [f"{r:,}" for r, good in read.items() if good == most]
        when = ", ".join(best[:4]) + (", …" if len(best) > 4 else "")
        rows.append([name, str(len(own)), str(last), str(most), when])
    if len(rows) < 2:
        return
    yield (
        "Of what a row has of cells that were looked at on the way, so many are "
        "reproduced if ours are read after the last round, and after the rounds at "
        "which most are:\n"
    )
    heads = ["cells", "after the last round", "at most", "after"]
    yield "\n".join(tables.grid(heads, rows)) + "\n"


def _script(one: _Seen) -> Iterator[str]:
    """What a script found; where the paper prints numbers, beside them."""
    home = one.entry.results[0].partition("/")[0]
    script = " ".join(one.entry.script)
    made = f"Made by `experiments/{script}`" if script else f"In experiments/{home}"
    yield f"{made}:\n"
    heads, rows = scripts.layout(one.made)
    yield "\n".join(tables.grid(heads, rows)) + "\n"
    if one.beside:
        rows = []
        for number in one.beside:
            cells = [tables.number(number.ours), tables.number(number.theirs)]
            cells += [tables.number(number.off, sign=True), number.verdict]
            rows.append([number.name, *cells])
        heads = ["ours", "theirs", "ours − theirs", ""]
        yield f"Theirs: {tables.where(one.entry)}.\n"
        yield "\n".join(tables.grid(heads, rows)) + "\n"


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
        more = tables.number(found.more_accuracy, sign=True)
        rows.append([name, gain, less, more])
    heads = ["over the strongest robust rule, mean of nine attacks"]
    heads += ["less variance than TERM, clean", "more accuracy than TERM, clean"]
    text = (
        "The paper's two sentences (6 % absolute over the strongest robust baseline; "
        "10 % less variance and 5 % more accuracy than fair methods; over all its "
        "data), for Fashion-MNIST alone:\n"
    )
    return [text, "\n".join(tables.grid(heads, rows)), ""]


def sources(root: Path) -> list[Path]:
    """Every file that a number of the page comes from, the papers' own aside."""
    shelf, found = Shelf(None, root), list[Path]()
    for entry in entries().values():
        found += scripts.files(entry, root)
        for cell in entry.everywhere():
            found += [result.file for result in shelf.settled(cell, SEEDS)]
            if len(cell.choices) > 1 and shelf.chosen(cell) is not None:
                tried = (shelf.find(cell, i, 0) for i in range(len(cell.choices)))
                found += [result.file for result in tried if result is not None]
    return list(dict.fromkeys(found))
