"""Runs beside each other: over seeds, client by client, and which to compare.

References: wilcoxon1945individual.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from troth.types import Refusal

Run = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Settings (dotted key → value, `seed` among them) and summary of a run."""

NAN = float("nan")
_PERSONAL = "personalizer.name"


class Paired(NamedTuple):
    """Two runs, client by client."""

    mean_difference: float  # of the second from the first
    low: float  # its 95 % interval
    high: float
    p_value: float  # Wilcoxon's signed ranks, two-sided
    better: int  # clients that the second run serves better
    worse: int
    equal: int
    n: int  # clients that have a value in both


class Group(NamedTuple):
    """Runs that differ only in their seed."""

    settings: dict[str, Any]  # without the seed
    seeds: list[Any]
    runs: list[int]  # which of the runs given, a seed each
    numbers: dict[str, tuple[float, float]]  # key → mean, half width


class Pair(NamedTuple):
    """Two runs that differ in one setting."""

    setting: str
    first: int  # which of the runs given
    second: int


def interval(values: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % Student-t interval.

    With s² = Σ(x − x̄)²/(n−1) the half width is t_{0.975, n−1} · s/√n. It supposes
    independent values that are about normal, as results over seeds are.

    Args:
        values: One a seed. A NaN is not left out: a seed that failed is not a result.

    Returns:
        Mean and half width; the half width of a single value is nan.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return NAN, NAN
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(x.mean())
        if x.size == 1:
            return mean, NAN
        error = float(x.std(ddof=1)) / float(np.sqrt(x.size))
    return mean, float(stats.t.ppf(0.975, x.size - 1)) * error


def paired(a: np.ndarray, b: np.ndarray, higher_is_better: bool = True) -> Paired:
    """Whether the second of two runs serves the clients better than the first.

    The mean of the differences b − a with its t-interval, and the p-value of Wilcoxon's
    signed-rank test that they lie symmetrically about 0; clients without a difference
    do not enter the test (Wilcoxon's own treatment).

    Args:
        a: [n] a value a client in the first run.
        b: [n] the same clients in the second run.
        higher_is_better: False for losses and errors; decides `better` and `worse`.

    Returns:
        The comparison over clients that have a value in both. With none all is nan;
        with one the interval is; without any difference the p-value is 1.

    Raises:
        Refusal: not the same clients.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise Refusal(
            f"runs of {a.shape} and {b.shape} clients cannot be paired; "
            "both must have the same clients, a value each"
        )
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    with np.errstate(invalid="ignore"):
        difference = np.where(a == b, 0.0, b - a)  # two infinite losses are equal
    mean, half = interval(difference)
    up, down = int((difference > 0).sum()), int((difference < 0).sum())
    better, worse = (up, down) if higher_is_better else (down, up)
    return Paired(
        mean_difference=mean,
        low=mean - half,
        high=mean + half,
        p_value=_signed_ranks(difference),
        better=better,
        worse=worse,
        equal=len(difference) - up - down,
        n=len(difference),
    )


def _signed_ranks(difference: np.ndarray) -> float:
    """Two-sided p-value; differences equal but for rounding (1e-12) share a rank."""
    if not difference.size:
        return NAN
    difference = difference[difference != 0]
    if not difference.size:
        return 1.0
    magnitude = np.abs(difference)
    unit = np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)) or 1.0
    ranks = stats.rankdata(np.round(magnitude / unit, 12))  # finite where these are not
    return float(stats.wilcoxon(np.sign(difference) * ranks).pvalue)


def by_seed(runs: Sequence[Run]) -> list[Group]:
    """Mean and half width over the runs that differ only in `seed`.

    Args:
        runs: Settings and summary of each. Runs alike in every setting, seed included,
            are the same run, and only the first of them counts.

    Returns:
        A group for each distinct rest of the settings, in order of appearance. Its
        numbers are those that every run of it has; a key in a nested summary is dotted
        (`personal.accuracy_mean`), lists and texts are passed over.
    """
    groups: dict[frozenset[tuple[str, str]], list[int]] = {}
    for i in _distinct(runs):
        rest = {k: v for k, v in runs[i][0].items() if k != "seed"}
        groups.setdefault(frozenset(_written(rest).items()), []).append(i)
    return [_group(runs, members) for members in groups.values()]


def _group(runs: Sequence[Run], members: list[int]) -> Group:
    tables = [_numbers(runs[i][1]) for i in members]
    shared = [k for k in tables[0] if all(k in t for t in tables)]
    return Group(
        settings={k: v for k, v in runs[members[0]][0].items() if k != "seed"},
        seeds=[runs[i][0].get("seed") for i in members],
        runs=members,
        numbers={k: interval([t[k] for t in tables]) for k in shared},
    )


def pairs(runs: Sequence[Run]) -> list[Pair]:
    """Pairs of runs that differ in exactly one setting and have the same seed.

    Of many runs that differ in the same setting, each is paired with the first of them
    only; where that is the personalizer, also with the one whose clients train alone
    (`local`), for that is what every other one must be worth the effort against.
    Where the setting is the name of a part (`personalizer.name`), options of that part
    which only one of the two has go with the name and are no second difference.

    Args:
        runs: Settings and summary of each; a run given twice counts once.

    Returns:
        The pairs, by their second run.
    """
    written = {i: _written(runs[i][0]) for i in _distinct(runs)}
    every = {key for settings in written.values() for key in settings}
    varies = [k for k in every if len({s.get(k) for s in written.values()}) > 1]
    written = {
        i: {k: s[k] for k in sorted(varies) if k in s} for i, s in written.items()
    }
    found: dict[tuple[Any, ...], Pair] = {}
    for j, b in written.items():
        for i in (i for i in written if i < j):
            setting = _difference(written[i], b)
            alone = repr("local") in (written[i].get(_PERSONAL), b.get(_PERSONAL))
            if setting:
                first = found.setdefault((j, setting), Pair(setting, i, j))
                if setting == _PERSONAL and alone and first.first != i:
                    found[j, setting, i] = Pair(setting, i, j)
    return list(found.values())


def _difference(a: dict[str, str], b: dict[str, str]) -> str:
    """The one setting in which two runs differ; "" for none, many or the seed."""
    changed = sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k))
    if len(changed) == 1:
        return "" if changed == ["seed"] else changed[0]
    names = [k for k in changed if k.endswith(".name")]
    if len(names) != 1:
        return ""
    section = names[0].removesuffix("name")
    rest = (k for k in changed if k != names[0])
    follows = all(k.startswith(section) and not (k in a and k in b) for k in rest)
    return names[0] if follows else ""


def _distinct(runs: Sequence[Run]) -> list[int]:
    """The runs, less those that repeat an earlier one."""
    first: dict[frozenset[tuple[str, str]], int] = {}
    for i, (settings, _) in enumerate(runs):
        first.setdefault(frozenset(_written(settings).items()), i)
    return list(first.values())


def _written(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as text: lists too can be compared and counted."""
    return {key: repr(value) for key, value in settings.items()}


def _numbers(summary: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a summary by dotted key; `null` in a file stands for NaN."""
    flat: dict[str, float] = {}
    for key, value in summary.items():
        if isinstance(value, Mapping):
            flat |= _numbers(value, f"{prefix}{key}.")
        elif value is None:
            flat[prefix + key] = NAN
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[prefix + key] = float(value)
    return flat
