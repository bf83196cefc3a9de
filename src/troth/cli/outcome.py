"""What finished runs come to, beside each other: for tables and for `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from troth.cli.tables import difference, heading
from troth.config import reader
from troth.evaluation import compare as comparison
from troth.runs.load import Run, judged


def compare(found: Sequence[Run], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Runs over their seeds, and pairs of runs client by client."""
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
        "runs": [identity(found[i]) for i in group.runs],
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
        "first": identity(a),
        "second": identity(b),
        **comparison.paired(one, two, metric == "accuracy")._asdict(),
    }


def identity(run: Run) -> str:
    """The same for runs that must give the same numbers."""
    return str(run.experiment.resolved["fingerprint"])


def _settings(run: Run) -> dict[str, Any]:
    """Dotted key → value, of all that decides the numbers of a run."""
    aside = ("name", "engine.", "checkpoint.", "output.")
    flat = reader.differences(reader.to_dict(run.experiment), {})
    return {k: v for k, (v, _) in flat.items() if not k.startswith(aside)}


def entries(found: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs, for `--json`."""
    return [
        {
            "id": identity(run),
            "folder": str(run.path),
            "experiment": reader.to_dict(run.experiment),
            "summary": run.summary,
        }
        for run in found
    ]
