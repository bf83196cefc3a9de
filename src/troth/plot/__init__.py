"""Draw runs from their files: `troth.plot.curves("runs/x").savefig("c.svg")`.

Every function takes a run, the folder of a run, or several of these, and returns a
matplotlib figure. `width="column"` or `"page"` is the width of the figure in a paper;
`style="talk"` makes letters and lines large for a slide. Every color has another
lightness and goes with another dash or marker, for color-blind readers and gray
printing.
"""

from troth.plot.performance import clients, curves, frontier, pairs, seeds
from troth.plot.trust import audit, certified, verdicts

__all__ = [
    "audit",
    "certified",
    "clients",
    "curves",
    "frontier",
    "pairs",
    "seeds",
    "verdicts",
]
