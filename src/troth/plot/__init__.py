"""Draw runs from their files: `troth.plot.curves("runs/x").savefig("c.svg")`.

Every function takes a run, the folder of a run, or several of these, and returns a
matplotlib figure. Every color has another lightness and goes with another dash or
marker, for color-blind readers and gray printing.
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
