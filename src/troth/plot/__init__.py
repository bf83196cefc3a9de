"""Pictures of runs, from their files: `troth.plot.curves("runs/x").savefig("c.svg")`.

Every function takes a run, its folder, or several of them, and gives a matplotlib
figure. Colours differ in lightness and come with a dash or a mark of their own, so that
they survive colour blindness and grey printing.
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
