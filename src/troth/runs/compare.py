"""Compare finished runs over seeds and clients, and format the results."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from troth import lookup
from troth.config import reader
from troth.evaluation.paired import NAN, Paired, holm, interval, paired
from troth.runs.load import Run, judged

Row = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Settings of a run (dotted key → value, including `seed`) and its summary."""

_PERSONAL = "personalizer.name"


class Group(NamedTuple):
    """Runs that differ only in their seed."""

    settings: dict[str, Any]  # without the seed
    seeds: list[Any]
    runs: list[int]  # indices of the runs, one per seed
    numbers: dict[str, tuple[float, float]]  # key → mean, half width of its interval


class Pair(NamedTuple):
    """Two runs, or groups of runs, that differ in one setting."""

    setting: str
    first: int  # index of the first run or group
    second: int


def by_seed(runs: Sequence[Row]) -> list[Group]:
    """Group runs that differ only in `seed`; compute means and 95 % intervals.

    If runs have the same settings and seed, only the first one is used. `numbers` has
    the numbers that the summaries of all runs of a group have. Keys of nested summaries
    are joined by dots (`personal.accuracy_mean`).
    """
    members: dict[frozenset[tuple[str, str]], list[int]] = {}
    for i in _distinct(runs):
        rest = {k: v for k, v in runs[i][0].items() if k != "seed"}
        members.setdefault(frozenset(_written(rest).items()), []).append(i)
    groups = []
    for own in members.values():
        settings = {k: v for k, v in runs[own[0]][0].items() if k != "seed"}
        seeds = [runs[i][0].get("seed") for i in own]
        tables = [_numbers(runs[i][1]) for i in own]
        shared = [k for k in tables[0] if all(k in t for t in tables)]
        numbers = {k: interval([t[k] for t in tables]) for k in shared}
        groups.append(Group(settings, seeds, own, numbers))
    return groups


def pairs(runs: Sequence[Row]) -> list[Pair]:
    """Return the pairs of runs that differ in exactly one setting.

    This setting must not be the seed. If several runs differ only in the same setting,
    each one is paired with the first of them. If the setting is the personalizer, each
    one is also paired with the run of `local`, the baseline of every personalizer. If
    the setting is the name of a method, such as `personalizer.name`, then options that
    only one of the two methods has are not counted as differences.
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
    """Return the only setting in which two runs differ; "" if there is no such setting.

    The seed is not such a setting.
    """
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
    """Return the indices of the runs with different settings."""
    first: dict[frozenset[tuple[str, str]], int] = {}
    for i, (settings, _) in enumerate(runs):
        first.setdefault(frozenset(_written(settings).items()), i)
    return list(first.values())


def _written(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of settings as text, so that lists can be compared too."""
    return {key: repr(value) for key, value in settings.items()}


def _numbers(summary: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers of a summary by dotted key; None becomes NaN."""
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
    """Summarize runs over their seeds, and compare pairs of methods.

    Two methods are compared if their runs differ in one setting, which is not the data,
    the partition or the seed. A comparison uses all seeds that both methods have (see
    `troth.evaluation.paired.paired`).

    Args:
        runs: Finished runs.
        labels: One label per run, such as `personalizer=ditto+lam=1.0,seed=0`.

    Returns:
        One dictionary per group of runs with several seeds (`kind` is "seeds"), then
        one per pair (`kind` is "paired"), with the corrected p-values of `corrected`.
    """
    groups = by_seed([(settings_of(run), run.summary) for run in runs])
    labels = [full(run, label) for run, label in zip(runs, labels, strict=True)]
    other = ("data.", "partition.")  # such runs have different clients
    alike = [
        pair
        for pair in pairs([(group.settings, {}) for group in groups])
        if not pair.setting.startswith(other)
    ]
    made = (_by_client(pair, groups, runs, labels) for pair in alike)
    return [
        *(_over_seeds(group, runs, labels) for group in groups if len(group.runs) > 1),
        *corrected([pair for pair in made if pair is not None]),
    ]


def corrected(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add `p_holm` to comparisons: the p-value, corrected for their number."""
    adjusted = holm([pair["p_value"] for pair in found])
    return [
        pair | {"p_holm": p, "comparisons": len(found)}
        for pair, p in zip(found, adjusted, strict=True)
    ]


def without_seed(label: str) -> str:
    """Return a label without its seed, or "all seeds" if that is the whole label."""
    rest = re.sub(r"(?<![.\w])seed=[^,]*,|,seed=[^,]*", "", label)
    return re.sub(r"(?<![.\w])seed=[^,]*", "all seeds", rest)


def caution(found: Sequence[Mapping[str, Any]]) -> str:
    """Return a warning about comparisons with one or two seeds; "" with more seeds."""
    pairs = [each["seeds"] for each in found if each["kind"] == "paired"]
    groups = [len(each["seeds"]) for each in found if each["kind"] == "seeds"]
    more = "Train at least 3 seeds, better 5, such as seed = [0, 1, 2] in [grid]"
    if 1 in pairs:
        return (
            "With one seed, a comparison is about the trained models, for clients like "
            "these. It does not show that one method is better: another seed of the "
            f"same method may differ as much. {more}"
        )
    if 2 in [*pairs, *groups]:
        return (
            f"Two seeds are too few: an interval over two values is very wide. {more}"
        )
    return ""


def _over_seeds(
    group: Group, runs: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    first = group.runs[0]
    numbers = {k: {"mean": m, "half_width": h} for k, (m, h) in group.numbers.items()}
    return {
        "kind": "seeds",
        "label": without_seed(labels[first]),
        "metric": heading(runs[first].summary),
        "runs": [_identity(runs[i]) for i in group.runs],
        "seeds": group.seeds,
        "numbers": numbers,
    }


def _by_client(
    pair: Pair, groups: Sequence[Group], runs: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any] | None:
    """Compare two groups of runs; return None if they have no seed in common."""
    of = [
        dict(zip(g.seeds, g.runs, strict=True))
        for g in (groups[pair.first], groups[pair.second])
    ]
    seeds = [seed for seed in of[0] if seed in of[1]]
    if not seeds:
        return None
    first, second = ([each[seed] for seed in seeds] for each in of)
    metric = heading(runs[first[0]].summary)
    names = [labels[first[0]], labels[second[0]]]
    names = [without_seed(name) for name in names] if len(seeds) > 1 else names
    values = [_values(runs[i], metric) for i in (*first, *second)]
    return {
        "kind": "paired",
        "label": difference(*names),
        "metric": metric,
        "setting": pair.setting,
        "first": [_identity(runs[i]) for i in first],
        "second": [_identity(runs[i]) for i in second],
        **over_seeds(values, metric)._asdict(),
    }


def _values(run: Run, metric: str) -> np.ndarray:
    """Return the metric of every client; NaN for clients that are not in summaries."""
    return np.where(judged(run.clients), run.clients[metric], NAN)


def over_seeds(values: Sequence[np.ndarray], metric: str) -> Paired:
    """Compare two methods over several seeds.

    Args:
        values: One array [n] per seed for the first method, then for the second. NaN
            means that the client has no value. n may depend on the seed.
        metric: "accuracy" (higher is better) or "error" (lower is better).
    """
    rows = np.full((len(values), max(map(len, values))), NAN)
    for row, own in zip(rows, values, strict=True):
        row[: len(own)] = own
    first, second = np.split(rows, 2)
    return paired(first, second, metric == "accuracy")


def _identity(run: Run) -> str:
    """Return the fingerprint; runs with equal fingerprints have equal results."""
    return str(run.experiment.resolved["fingerprint"])


def settings_of(run: Run) -> dict[str, Any]:
    """Return dotted key → value for all settings that affect a run's results."""
    aside = ("name", "engine.", "checkpoint.", "output.")
    flat = reader.differences(reader.to_dict(run.experiment), {})
    return {k: v for k, (v, _) in flat.items() if not k.startswith(aside)}


def entries(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the runs as dictionaries, as in `troth run --json`."""
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
    """Return the main score of a summary: "accuracy", or "error" for a regression."""
    return "accuracy" if "accuracy_mean" in summary["personal"] else "error"


def poisoned(run: Run) -> str:
    """Return the corruption of malicious clients' data, in words; "" if none."""
    name = run.experiment.corruption.name if run.summary.get("malicious") else "none"
    return {"none": "", "auto": "wrong labels"}.get(name, name)


def acts(attack: str, corruption: str) -> str:
    """Return the name of an attack on messages, combined with a corruption of data.

    Args:
        attack: Value in a label, such as `alie`; `none` means honest messages.
        corruption: Result of `poisoned`.
    """
    if not corruption:
        return attack
    return corruption if attack == "none" else f"{attack} + {corruption}"


def full(run: Run, label: str) -> str:
    """Return a run's label; after the attack, the corruption of data is added."""
    parts = [part.partition("=") for part in label.split(",")]
    if "corruption" in [key for key, _, _ in parts]:
        return label
    done = poisoned(run)
    return ",".join(
        f"{key}{sign}{acts(value, done) if key == 'attack' else value}"
        for key, sign, value in parts
    )


def short(label: str) -> str:
    """Return a shorter label: `ditto,lam=0.1` for `personalizer=ditto+lam=0.1`."""
    parts = []
    for part in label.split(","):
        kind, _, value = part.partition("=")
        named = kind in lookup.FOLDERS and value
        words = f"no {kind}" if value == "none" else re.sub(r"\+(?! )", ",", value)
        parts.append(words if named else part)
    return ",".join(parts)


def difference(first: str, second: str) -> str:
    """Return `second − first` for two labels, followed by their common parts."""
    a, b = first.split(","), second.split(",")
    both = [part for part in a if part in b]
    own = (",".join(p for p in parts if p not in both) for parts in (b, a))
    names = " − ".join(map(short, own))
    return f"{names} ({short(','.join(both))})" if both else names


def number(value: float | None, head: str = "accuracy") -> str:
    """Format an accuracy with three decimals, an error with four digits."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3f}" if head == "accuracy" else f"{value:.4g}"


def signed(value: float | None, head: str) -> str:
    """Format a difference, with its sign."""
    plus = "+" if value is not None and value >= 0 else ""
    return (plus + number(value, head)).replace("-", "−")
