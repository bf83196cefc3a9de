"""Pictures of runs, from their files: `troth.plot.curves("runs/x").savefig("c.svg")`.

Every function takes a run, its folder, or several of them, and returns a matplotlib
figure. Colors differ in lightness and come with a dash or a mark of their own, for
color-blind readers and gray printing.
"""

from troth.plot.performance import clients, curves, frontier, pairs
from troth.plot.trust import audit, certified, verdicts

__all__ = [
    "audit",
    "certified",
    "clients",
    "curves",
    "frontier",
    "pairs",
    "verdicts",
]
