"""Compare finished runs, and write their labels and numbers as people read them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from troth import lookup
from troth.config import reader
from troth.evaluation import compare as comparison
from troth.runs.load import Run, judged


def compare(found: Sequence[Run], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Summarize runs over their seeds, and compare pairs of runs client by client."""
    told = [(_settings(run), run.summary) for run in found]
    several = [group for group in comparison.by_seed(told) if len(group.runs) > 1]
    alike = [  # in other data or parts of them client k is somebody else
        pair
        for pair in comparison.pairs(told)
        if not pair.setting.startswith(("data.", "partition."))
    ]
    return [
        *(_over_seeds(group, found, labels) for group in several),
        *(_by_client(pair, found, labels) for pair in alike),
    ]


def _over_seeds(
    group: comparison.Group, found: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    first = group.runs[0]
    parts = [p for p in labels[first].split(",") if not p.startswith("seed=")]
    numbers = {k: {"mean": m, "half_width": h} for k, (m, h) in group.numbers.items()}
    return {
        "kind": "seeds",
        "label": ",".join(parts) or "all",
        "metric": heading(found[first].summary),
        "runs": [_identity(found[i]) for i in group.runs],
        "seeds": group.seeds,
        "numbers": numbers,
    }


def _by_client(
    pair: comparison.Pair, found: Sequence[Run], labels: Sequence[str]
) -> dict[str, Any]:
    a, b = found[pair.first], found[pair.second]
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
        **comparison.paired(one, two, metric == "accuracy")._asdict(),
    }


def _identity(run: Run) -> str:
    """The same for runs that must give the same numbers."""
    return str(run.experiment.resolved["fingerprint"])


def _settings(run: Run) -> dict[str, Any]:
    """Dotted key → value, of all that decides the numbers of a run."""
    aside = ("name", "engine.", "checkpoint.", "output.")
    flat = reader.differences(reader.to_dict(run.experiment), {})
    return {k: v for k, (v, _) in flat.items() if not k.startswith(aside)}


def entries(found: Sequence[Run]) -> list[dict[str, Any]]:
    """Describe the runs for programs."""
    return [
        {
            "id": _identity(run),
            "folder": str(run.path),
            "experiment": reader.to_dict(run.experiment),
            "summary": run.summary,
        }
        for run in found
    ]


def heading(summary: Mapping[str, Any]) -> str:
    """What clients are judged by: accuracy, or error for a regression."""
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
    """An accuracy with three decimals, an error with four digits."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3f}" if head == "accuracy" else f"{value:.4g}"


def signed(value: float | None, head: str) -> str:
    """A difference, with its sign."""
    plus = "+" if value is not None and value >= 0 else ""
    return (plus + number(value, head)).replace("-", "−")
