"""Compare finished runs: over seeds, client by client, as people read it.

References: wilcoxon1945individual.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from troth import lookup
from troth.config import reader
from troth.runs.load import Run, judged
from troth.types import Refusal

Row = tuple[Mapping[str, Any], Mapping[str, Any]]
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
    """Return the mean of values and the half width of its 95 % Student-t interval.

    With s² = Σ(x − x̄)²/(n−1) the half width is t_{0.975, n−1} · s/√n, NaN for a single
    value. It supposes independent values that are about normal, as results over seeds
    are. A NaN is not left out: a seed that failed is not a result.
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
    """Test whether the second of two runs serves the clients better than the first.

    The mean of the differences b − a with its t-interval, and the p-value of Wilcoxon's
    signed-rank test that they lie symmetrically about 0; clients without a difference
    do not enter the test (Wilcoxon's own treatment).

    Args:
        a: [n] one value per client in the first run.
        b: [n] the same clients in the second run.
        higher_is_better: False for losses and errors; decides `better` and `worse`.

    Returns:
        The comparison over clients that have a value in both. With none all is NaN;
        with one the interval is; without any difference the p-value is 1.
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
    p_value, n = _signed_ranks(difference), len(difference)
    equal = n - up - down
    return Paired(mean, mean - half, mean + half, p_value, better, worse, equal, n)


def _signed_ranks(difference: np.ndarray) -> float:
    """Return the two-sided p-value; differences within 1e-12 share a rank."""
    if not difference.size:
        return NAN
    difference = difference[difference != 0]
    if not difference.size:
        return 1.0
    magnitude = np.abs(difference)
    unit = np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)) or 1.0
    ranks = stats.rankdata(np.round(magnitude / unit, 12))  # finite where these are not
    return float(stats.wilcoxon(np.sign(difference) * ranks).pvalue)


def by_seed(runs: Sequence[Row]) -> list[Group]:
    """Group runs that differ only in `seed`: means, half widths of 95 % intervals.

    Runs alike in every setting, seed included, are the same run, and only the first of
    them counts. Numbers are those that every run of a group has; a key in a nested
    summary is dotted (`personal.accuracy_mean`), lists and texts are passed over.
    """
    groups: dict[frozenset[tuple[str, str]], list[int]] = {}
    for i in _distinct(runs):
        rest = {k: v for k, v in runs[i][0].items() if k != "seed"}
        groups.setdefault(frozenset(_written(rest).items()), []).append(i)
    found = []
    for members in groups.values():
        settings = {k: v for k, v in runs[members[0]][0].items() if k != "seed"}
        seeds = [runs[i][0].get("seed") for i in members]
        tables = [_numbers(runs[i][1]) for i in members]
        shared = [k for k in tables[0] if all(k in t for t in tables)]
        numbers = {k: interval([t[k] for t in tables]) for k in shared}
        found.append(Group(settings, seeds, members, numbers))
    return found


def pairs(runs: Sequence[Row]) -> list[Pair]:
    """Pair runs that differ in exactly one setting and have the same seed.

    Of many runs that differ in the same setting, each is paired with the first of them
    only; where that is the personalizer, also with the one whose clients train alone
    (`local`), for that is what every other one must be worth the effort against.
    Where the setting is the name of a part (`personalizer.name`), options of that part
    which only one of the two has go with the name and are no second difference.
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
    """Return the one setting in which two runs differ; "" if not one, or the seed."""
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


def _distinct(runs: Sequence[Row]) -> list[int]:
    """Return the runs, less those that repeat an earlier one."""
    first: dict[frozenset[tuple[str, str]], int] = {}
    for i, (settings, _) in enumerate(runs):
        first.setdefault(frozenset(_written(settings).items()), i)
    return list(first.values())


def _written(settings: Mapping[str, Any]) -> dict[str, str]:
    """Write settings as text: lists too can be compared and counted."""
    return {key: repr(value) for key, value in settings.items()}


def _numbers(summary: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers of a summary by dotted key; `null` stands for NaN."""
    flat: dict[str, float] = {}
    for key, value in summary.items():
        if isinstance(value, Mapping):
            flat |= _numbers(value, f"{prefix}{key}.")
        elif value is None:
            flat[prefix + key] = NAN
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[prefix + key] = float(value)
    return flat


def compare(runs: Sequence[Run], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Summarize runs over their seeds, and compare pairs of runs client by client."""
    rows = [(_settings(run), run.summary) for run in runs]
    several = [group for group in by_seed(rows) if len(group.runs) > 1]
    other = ("data.", "partition.")  # there client k is somebody else
    alike = [pair for pair in pairs(rows) if not pair.setting.startswith(other)]
    return [
        *(_over_seeds(group, runs, labels) for group in several),
        *(_by_client(pair, runs, labels) for pair in alike),
    ]


def _over_seeds(
    group: Group, runs: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    first = group.runs[0]
    parts = [p for p in labels[first].split(",") if not p.startswith("seed=")]
    numbers = {k: {"mean": m, "half_width": h} for k, (m, h) in group.numbers.items()}
    return {
        "kind": "seeds",
        "label": ",".join(parts) or "all",
        "metric": heading(runs[first].summary),
        "runs": [_identity(runs[i]) for i in group.runs],
        "seeds": group.seeds,
        "numbers": numbers,
    }


def _by_client(
    pair: Pair, runs: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    a, b = runs[pair.first], runs[pair.second]
    metric = heading(a.summary)
    who = judged(a.clients) & judged(b.clients)
    one, two = (run.clients[metric][who] for run in (a, b))
    return {
        "kind": "paired",
        "label": difference(labels[pair.first], labels[pair.second]),
        "metric": metric,
        "setting": pair.setting,
        "first": _identity(a),
        "second": _identity(b),
        **paired(one, two, metric == "accuracy")._asdict(),
    }


def _identity(run: Run) -> str:
    """Return the same text for runs that must give the same numbers."""
    return str(run.experiment.resolved["fingerprint"])


def _settings(run: Run) -> dict[str, Any]:
    """Return dotted key → value, of all that decides the numbers of a run."""
    aside = ("name", "engine.", "checkpoint.", "output.")
    flat = reader.differences(reader.to_dict(run.experiment), {})
    return {k: v for k, (v, _) in flat.items() if not k.startswith(aside)}


def entries(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Describe the runs for programs."""
    return [
        {
            "id": _identity(run),
            "folder": str(run.path),
            "experiment": reader.to_dict(run.experiment),
            "summary": run.summary,
        }
        for run in runs
    ]


def heading(summary: Mapping[str, Any]) -> str:
    """Return the main score of clients: accuracy, or error for a regression."""
    return "accuracy" if "accuracy_mean" in summary["personal"] else "error"


def short(label: str) -> str:
    """Shorten a run's label: `ditto,lam=0.1` for `personalizer=ditto+lam=0.1`."""
    parts = []
    for part in label.split(","):
        kind, _, value = part.partition("=")
        named = kind in lookup.FOLDERS and value
        words = f"no {kind}" if value == "none" else value.replace("+", ",")
        parts.append(words if named else part)
    return ",".join(parts)


def difference(first: str, second: str) -> str:
    """« second − first » of two labels, with what they share in brackets after it."""
    a, b = first.split(","), second.split(",")
    both = [part for part in a if part in b]
    own = (",".join(p for p in parts if p not in both) for parts in (b, a))
    names = " − ".join(map(short, own))
    return f"{names} ({short(','.join(both))})" if both else names


def number(value: float | None, head: str = "accuracy") -> str:
    """Write an accuracy with three decimals, an error with four digits."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3f}" if head == "accuracy" else f"{value:.4g}"


def signed(value: float | None, head: str) -> str:
    """Write a difference, with its sign."""
    plus = "+" if value is not None and value >= 0 else ""
    return (plus + number(value, head)).replace("-", "−")
