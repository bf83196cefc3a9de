"""The two summary claims of the Ditto paper, tested on Fashion-MNIST alone.

Appendix G.6: over all data and attacks, Ditto with dynamic λ's "achieves 6% absolute
accuracy improvement compared with the strongest robust baseline", and it is able "to
reduce the variance of test accuracy by 10% while improving the average accuracy by 5%
relative to state-of-the-art methods for fair FL (without attacks)".
"""

from collections.abc import Callable
from typing import NamedTuple

from troth.reproduce import judging
from troth.reproduce.kept import Shelf
from troth.reproduce.listing import find

ROBUST = ("median", "Krum", "multi-Krum", "clipping", "k-norm", "k-loss", "FedMGDA+")
OWN = ("dynamic λ's", "best λ")
"""Rows of Ditto's: that of the sentence; that whose λ is one of three fixed ones."""


class Headline(NamedTuple):
    """The numbers of the two claims."""

    gain: float  # of Ditto over the strongest robust rule, mean over the nine attacks
    strongest: str
    less_variance: float  # share of the variance over clients that is gone, clean
    more_accuracy: float  # over the fair rule, clean
    between: tuple[float, float] | None = None  # less variance, of rounded deviations


Numbers = dict[tuple[str, str], tuple[float, float]]
"""(row, column) → mean and standard deviation over clients."""


def headline(
    numbers: Numbers, ditto: str = OWN[0], digits: float = 0.0
) -> Headline | None:
    """Compute the numbers from a table with a row of Ditto's; `None` if incomplete.

    The strongest robust rule is the one with the highest mean over the attacks.

    If deviations are rounded to `digits`, the variance is given as an interval.
    """
    columns = dict.fromkeys(column for _, column in numbers)
    attacks = [column for column in columns if column != "clean"]
    wanted = {(row, column) for row in (*ROBUST, ditto) for column in attacks}
    wanted |= {("fair", "clean"), (ditto, "clean")}
    if len(attacks) < 9 or not wanted <= numbers.keys():
        return None

    def mean(row: str) -> float:
        return sum(numbers[row, c][0] for c in attacks) / len(attacks)

    best = max(ROBUST, key=mean)
    own, fair = numbers[ditto, "clean"], numbers["fair", "clean"]
    less, half = 1 - (own[1] / fair[1]) ** 2, digits / 2
    found = Headline(mean(ditto) - mean(best), best, less, own[0] - fair[0])
    if not digits:
        return found
    ends = ((own[1] + half) / (fair[1] - half), (own[1] - half) / (fair[1] + half))
    least, most = (1 - ratio**2 for ratio in ends)
    return found._replace(between=(least, most))


def both(shelf: Shelf, seeds: int) -> dict[tuple[str, str], Headline | None]:
    """Return (Ditto's λ, source) → numbers, from the paper's table and from ours."""
    judged = []
    for name in ("ditto/table8", "ditto/table4"):
        entry = find(name)
        cells = [c for c in entry.everywhere() if c.part.startswith("Fashion")]
        judged += judging.table(entry, cells, shelf, seeds)

    def taken(value: Callable[[judging.Judged], tuple[float, float] | None]) -> Numbers:
        found = {(one.cell.row, one.cell.column): value(one) for one in judged}
        return {key: both for key, both in found.items() if both is not None}

    whose = {
        "the paper's": taken(_theirs),
        "ours": taken(lambda one: (one.mean, one.std) if one.seeds else None),
    }
    return {
        (ditto, who): headline(numbers, ditto, 0.0 if who == "ours" else 0.01)
        for ditto in OWN
        for who, numbers in whose.items()
    }


def _theirs(one: judging.Judged) -> tuple[float, float] | None:
    value = one.theirs
    return (value.mean, value.std) if value and value.std is not None else None
