"""Write the page of results: what reproduces and what does not, by committed results.

    python experiments/reproduce/page.py

`results.md.j2` is the page; here is what it shows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import headlines
import jinja2
import misses
import notes

from troth import files
from troth.reproduce import SEEDS, judging, papers, scripts, tables
from troth.reproduce.entry import Entry
from troth.reproduce.kept import Shelf, spent
from troth.reproduce.listing import entries
from troth.reproduce.settings import TEXTS


def page(root: Path) -> str:
    """Make the whole page."""
    shelf, why = Shelf(None, root), notes.read(root)
    every = [_seen(entry, shelf, root) for entry in entries().values()]

    def share(judged: list[judging.Judged]) -> str:
        return "{} of {}".format(*judging.share(judged))

    def lines(one: _Seen) -> Iterator[str]:
        yield from _order(one.found)
        yield from misses.off(one.entry, one.found, root)
        yield from misses.readings(one.found)

    def noted(entry: Entry) -> Iterator[tuple[str, str]]:
        for cell, text in why.get(entry.name, {}).items():
            yield cell, notes.filled(text, entry.name, shelf, SEEDS)

    text = Path(__file__).with_name("results.md.j2").read_text("utf-8")
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    made: str = environment.from_string(text).render(
        texts=TEXTS,
        tables=tables,
        scripts=scripts,
        papers={paper: papers.read(paper)["title"] for paper in papers.PAPERS},
        every=every,
        glance=[_glance(one, why) for one in every],
        headlines=list(_headlines(shelf)),
        share=share,
        seeds=_seeds,
        lines=lines,
        notes=noted,
        spent=lambda entry: f"{spent(shelf, entry.everywhere(), SEEDS):,.0f}",
    )
    return made.rstrip() + "\n"


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

    @property
    def maker(self) -> str:
        """Where a script's numbers come from."""
        script = " ".join(self.entry.script)
        home = self.entry.results[0].partition("/")[0]
        return f"Made by `experiments/{script}`" if script else f"In experiments/{home}"


def _seen(entry: Entry, shelf: Shelf, root: Path) -> _Seen:
    every = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    found = [one for one in every if one.seeds]
    made = scripts.lines(entry, root)
    return _Seen(entry, found, made, judging.of_script(entry, root))


def _glance(one: _Seen, why: notes.Notes) -> list[str]:
    """An entry in a line."""
    if not one:
        idle = f"not run: {one.entry.note}" if one.entry.note else "not run"
        return [f"`{one.entry.name}`", one.entry.title, idle, "–"]
    good, judged = judging.share([*one.found, *one.beside])
    ran = f"{len(one.found)} of {len(one.entry.everywhere())} cells"
    verdicts = [key for key in why.get(one.entry.name, {}) if key in notes.HOLDS]
    share = f"{good} of {judged}" if judged else "".join(verdicts) or "–"
    name = f"[`{one.entry.name}`](#{one.anchor})"
    return [name, one.entry.title, ran if one.found else "by a script", share]


def _order(found: list[judging.Judged]) -> Iterator[str]:
    several = len({one.cell.federation.name for one in found}) > 1
    for ours, ranks in judging.order(found).items():
        words = (f"{column} {tables.number(rank)}" for column, rank in ranks.items())
        of = f", ours {ours}" if several else ""
        yield f"Order of the methods, Spearman with theirs{of}: {', '.join(words)}.\n"


def _seeds(judged: Iterable[judging.Judged]) -> str:
    """How many seeds cells have."""
    counts = sorted(Counter(one.seeds for one in judged).items())
    if len(counts) == 1:
        return f"Seeds: {counts[0][0]}."
    return f"Seeds: {', '.join(f'{n} in {many} cells' for n, many in counts)}."


def _headlines(shelf: Shelf) -> Iterator[list[str]]:
    """The paper's two sentences, for Fashion-MNIST."""
    for (ditto, whose), found in headlines.both(shelf, SEEDS).items():
        name = f"{ditto}, {whose}"
        if found is None:
            yield [name, "not all cells are run", "", ""]
            continue
        gain = f"{tables.number(found.gain, sign=True)} over {found.strongest}"
        less = f"{100 * found.less_variance:.0f} %"
        if found.between:  # deviations are printed with two digits
            least, most = (f"{100 * value:.0f}" for value in found.between)
            less += f" (by rounding {least} to {most} %)"
        yield [name, gain, less, tables.number(found.more_accuracy, sign=True)]


if __name__ == "__main__":
    EXPERIMENTS = Path(__file__).parents[1]
    PAGE = EXPERIMENTS.parent / "docs" / "reference" / "results.md"
    files.write(PAGE, page(EXPERIMENTS))
    print(f"{PAGE} is written")
