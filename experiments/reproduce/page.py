"""Write the page of results: which cells are reproduced, by the committed results.

    python experiments/reproduce/page.py

`results.md.j2` is the template of the page.
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
    """Return the whole page."""
    shelf, why = Shelf(None, root), notes.read(root)
    every = [_seen(entry, shelf, root) for entry in entries().values()]

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
        total=_total([one for seen in every for one in [*seen.found, *seen.beside]]),
        seeds=_seeds,
        lines=lines,
        notes=noted,
        spent=lambda entry: f"{spent(shelf, entry.everywhere(), SEEDS):,.0f}",
    )
    return made.rstrip() + "\n"


class _Seen(NamedTuple):
    """The results of an entry; false if there are none."""

    entry: Entry
    found: list[judging.Judged]  # cells that were run
    made: scripts.Lines
    beside: list[judging.Judged]  # cells of a script

    def __bool__(self) -> bool:
        return bool(self.found or self.made)

    @property
    def anchor(self) -> str:
        """The name that links to its section use."""
        return self.entry.name.replace("/", "-")

    @property
    def maker(self) -> str:
        """The script or folder that the numbers are from."""
        script = " ".join(self.entry.script)
        home = self.entry.results[0].partition("/")[0]
        return f"Made by `experiments/{script}`" if script else f"In experiments/{home}"


def _seen(entry: Entry, shelf: Shelf, root: Path) -> _Seen:
    every = judging.table(entry, entry.everywhere(), shelf, SEEDS)
    found = [one for one in every if one.seeds]
    made = scripts.lines(entry, root)
    return _Seen(entry, found, made, judging.of_script(entry, root))


def _glance(one: _Seen, why: notes.Notes) -> list[str]:
    """Return the row of an entry in the overview."""
    if not one:
        idle = f"not run: {one.entry.note}" if one.entry.note else "not run"
        return [f"`{one.entry.name}`", one.entry.title, idle, "–", "–", "–"]
    cells = [*one.found, *one.beside]
    good, judged = judging.share(cells)
    ran = f"{len(one.found)} of {len(one.entry.everywhere())} cells"
    verdicts = [key for key in why.get(one.entry.name, {}) if key in notes.HOLDS]
    share = f"{good} of {judged}" if judged else "".join(verdicts) or "–"
    name = f"[`{one.entry.name}`](#{one.anchor})"
    more = (judging.share(cells, by) for by in tables.VERDICTS.values())
    also = ["{} of {}".format(*both) if both[1] else "–" for both in more]
    return [name, one.entry.title, ran if one.found else "by a script", share, *also]


def _total(judged: list[judging.Judged]) -> str:
    """Return the sentence about all entries together."""
    once = judging.distinct(judged)
    steady = sum(one.draw and not one.missed for one in once)
    draws = sum(one.draw and one.missed for one in once)
    facts = {"shares": tables.shares(once), "steady": steady, "draws": draws}
    return TEXTS["total"].format(**facts)


def _order(found: list[judging.Judged]) -> Iterator[str]:
    several = len({one.cell.federation.name for one in found}) > 1
    for ours, ranks in judging.order(found).items():
        words = (f"{column} {tables.number(rank)}" for column, rank in ranks.items())
        of = f" (ours: {ours})" if several else ""
        start = f"Spearman's correlation of the rows' order with the paper's{of}"
        yield f"{start}: {', '.join(words)}.\n"


def _seeds(judged: Iterable[judging.Judged]) -> str:
    """Write how many seeds the cells have."""
    counts = sorted(Counter(one.seeds for one in judged).items())
    if len(counts) == 1:
        return f"Seeds: {counts[0][0]}."
    return f"Seeds: {', '.join(f'{n} in {many} cells' for n, many in counts)}."


def _headlines(shelf: Shelf) -> Iterator[list[str]]:
    """Yield the rows about the paper's two sentences, for Fashion-MNIST."""
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
