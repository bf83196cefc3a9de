"""Audit a run: find clients' models that rely on other features than the shared model.

Sections and theorems are those of Wang et al. (2021), *Robust and Personalized
Federated Learning with Spurious Features*.

References: wang2021robust.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from troth import devices, files, lookup, numerics
from troth.build import Built, build
from troth.certificates.bounds import lower, upper
from troth.client.adversarial._worst import Adversarial
from troth.client.client import adversarial
from troth.config.schema import Part
from troth.data import labels
from troth.data.preprocess import active
from troth.engine.local_training import Plan
from troth.examine import certify
from troth.examine.certify import Progress
from troth.examine.transferability import Bound, Seen, Terms, bound, look, terms
from troth.runs.load import Run
from troth.types import CONFLICTING, Batch, Refusal, Split, Task

ALPHA = 0.05
"""Probability that an interval does not contain the true value."""
_EXAMPLES = 512  # examples in a batch
Row = dict[str, float]


class Setting(NamedTuple):
    """Values of an audit that are the same for all clients."""

    built: Built
    task: Task
    adversarial: Adversarial
    w: Tensor  # [d] shared model
    on: Split  # examples to audit on
    conflicting: Split | None  # examples with a misleading shortcut; None: unknown
    eps: float  # ε of Theorem 3; 0: the theorem does not apply


def batches(a: Setting, split: Split, client: int) -> Iterator[Batch]:
    """Yield one client's examples of a split in batches."""
    feed = a.built.federation.engine.feed
    first, count = int(split.start[client]), int(split.size[client])
    key = feed.keys(np.array([client]), 0)[0].to(a.w.device)
    for i in range(0, count, _EXAMPLES):
        slots = torch.arange(first + i, first + min(count, i + _EXAMPLES))
        x, y = feed.gather(slots, split)
        weight = x.new_full((len(x),), 1 / len(x), dtype=a.w.dtype)
        none = torch.zeros((), dtype=torch.long, device=x.device)
        yield Batch(x, y, weight, none + i, none, key)


def row(a: Setting, client: int, v: Tensor) -> Row:
    """Return the columns of one client, with its own model v, except the verdicts."""
    parts = [look(a.task, a.adversarial, a.w, v, b) for b in batches(a, a.on, client)]
    if not parts:
        return {"examples": 0}
    whole = (torch.cat(list(part)).cpu().double() for part in zip(*parts, strict=True))
    seen = Seen(*whole)
    m, adv = len(seen.right), float(seen.adv_right.sum())
    more = float((seen.adv_right - seen.shared_adv_right).clamp(min=0).sum())
    less = float((seen.shared_adv_right - seen.adv_right).clamp(min=0).sum())
    valid = a.built.data.valid
    own, shared = (_plain(a, client, model, valid)[0] for model in (v, a.w))
    distance = numerics.off_tail(v - a.w, a.task.tail).cpu().double().norm()
    found = {
        "examples": m,
        "accuracy": float(seen.right.mean()),
        "shared_accuracy": float(seen.shared_right.mean()),
        "adv_accuracy": adv / m,
        **_named("adv", _interval(adv, m, ALPHA)),
        "transferability": 1 - adv / m,
        "shared_adv_accuracy": float(seen.shared_adv_right.mean()),
        "change": (more - less) / m,
        **_named("change", _apart((more, m), (less, m))),
        "l_trans": float(seen.l_trans.mean()),
        "angle": float(seen.angle.nanmean()),
        "ratio": float(seen.ratio.nanmedian()),
        "distance": float(distance),
        "valid_gain": float((own - shared).mean()),
        "confidence": float(seen.confidence.mean()),
    }
    return found | _disparity(a, client, v) | _bound(a, client, v)


def _interval(count: float, m: int, alpha: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson for a share count/m.

    If the count is not a whole number, the interval is widened by rounding it.
    """
    low = lower(np.floor(count), m, alpha / 2)
    return float(low), float(upper(np.ceil(count), m, alpha / 2))


def _apart(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, float]:
    """Return an interval of the difference of two shares, each given as (count, m).

    The shares may depend on each other.
    """
    one, two = (_interval(count, m, ALPHA / 2) for count, m in (a, b))
    return one[0] - two[1], one[1] - two[0]


def _named(name: str, interval: tuple[float, float]) -> Row:
    return {f"{name}_low": interval[0], f"{name}_high": interval[1]}


def _plain(a: Setting, client: int, v: Tensor, split: Split) -> tuple[Tensor, Tensor]:
    """Return whether the model v is right on each example of a split, and the losses.

    Only the examples of one client are used.
    """
    right, losses = [torch.zeros(0)], [torch.zeros(0)]
    for batch in batches(a, split, client):
        x = batch.x.to(v.dtype)
        outputs, loss, _ = a.task.climb(v, x, batch.y, True)
        right.append(labels.right(outputs, batch.y).cpu())
        losses.append(loss.cpu())
    return torch.cat(right).double(), torch.cat(losses).double()


def _disparity(a: Setting, client: int, v: Tensor) -> Row:
    """Return the columns about conflicting examples; empty if these are unknown.

    The disparity is the accuracy on test data minus that on conflicting examples.
    """
    if a.conflicting is None:
        return {}
    right, loss = _plain(a, client, v, a.built.data.test)
    other, other_loss = _plain(a, client, v, a.conflicting)
    if not len(right) or not len(other):
        return {"conflicting": len(other)}
    test, against = a.built.data.test, a.conflicting
    one, two = (_plain(a, client, a.w, split)[0].mean() for split in (test, against))
    pair = (float(right.sum()), len(right)), (float(other.sum()), len(other))
    return {
        "conflicting": len(other),
        "conflicting_accuracy": float(other.mean()),
        "disparity": float(right.mean() - other.mean()),
        **_named("disparity", _apart(*pair)),
        "shared_disparity": float(one - two),
        "loss_disparity": float(other_loss.mean() - loss.mean()),
    }


def _bound(a: Setting, client: int, v: Tensor) -> Row:
    """Return the bound of Theorem 3 and its terms; empty if data are not `colored`."""
    if not a.eps:
        return {}
    given = a.task, a.built.facts["scale"], a.eps, a.w, v
    each = [terms(*given, batch) for batch in batches(a, a.on, client)]
    whole = Terms(*(torch.cat(list(t)) for t in zip(*each, strict=True)))
    total, *others = bound(whole, a.eps)
    names = (f"bound_{name}" for name in Bound._fields[1:])
    return {"bound": total, **dict(zip(names, others, strict=True))}


FILE = files.AUDIT
_COUNTS = ("client", "examples", "conflicting")
On = Literal["test", "valid"]


class Found(NamedTuple):
    """The result of an audit."""

    file: Path  # audit.csv
    table: dict[str, np.ndarray]  # its columns, one row per client
    settings: dict[str, Any]
    rough: list[str]  # reasons to interpret the numbers with care

    def clients(self, column: str, verdict: float) -> list[int]:
        """Return the clients with a verdict: 1, 0 or NaN (undecided).

        Args:
            column: "suspect" or "biased".
            verdict: the verdict.
        """
        values = self.table[column]
        these = np.isnan(values) if np.isnan(verdict) else values == verdict
        return [int(k) for k in self.table["client"][these]]


def audit(
    run: Run | str | Path,
    *,
    on: On = "test",
    clients: str = "all",
    limit: float = 0.1,
    out: Path | None = None,
    data_dir: str | None = None,
    device: str = "auto",
    watch: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Found:
    """Test every client's own model on adversarial examples of the shared model.

    Adversarial examples x_adv are made from the client's data so that the shared model
    w misclassifies them (section `[adversarial]` of the experiment). Transferability is
    1 minus the accuracy of the personal model v on x_adv. `change` is the accuracy of v
    on x_adv minus that of w. If `change` is positive, v relies on other features than
    w, for example on spurious ones.

    Each interval is a 95 % Clopper–Pearson interval for one client. It is approximate
    if examples have several labels. `suspect` is 1 if the interval of `change` is above
    `limit`, 0 if it is below, and empty if undecided.

    In conflicting examples, a shortcut points to the wrong label. They are the test set
    `conflicting`, or the test examples of group 1. If they are known, `disparity` is
    the accuracy of v on test data minus that on conflicting examples, and `biased` is
    the verdict about it, like `suspect`.

    On `colored` data, `bound` estimates the bound of Theorem 3 on `loss_disparity`
    (`transferability.bound`). For other data, it is not known which features are
    spurious.

    Args:
        run: A finished run with saved personal models, whose data can be loaded.
        on: Data from which x_adv is made: "test" or "valid".
        clients: "all": benign clients that took part; "5": the first five of these;
            "3,8": clients 3 and 8; "3,": client 3 only.
        limit: Largest `change` that is not suspect, and largest `disparity` that is not
            biased.
        out: Folder to write to; None: that of the run.
        data_dir: Folder to search first for data.
        device: auto, cpu, cuda, cuda:N or mps.
        watch: Function that is called after every client with the progress.
        **options: Options of `[adversarial]` that replace those of the run: eps, norm,
            iterations …

    Returns:
        The table, its file, and reasons to interpret the numbers with care.

    Raises:
        Refusal: The run has no personal models or no classes, or some inputs are
            outside the range that adversarial examples need.

    >>> import tempfile, troth
    >>> folder = tempfile.TemporaryDirectory()
    >>> tree = {"partition": {"name": "iid", "clients": 4}, "personalizer": "ditto"}
    >>> [one] = troth.run({**tree, "train": {"rounds": 1}},
    ...                   settings=["engine.how=loop"], out=f"{folder.name}/run")
    >>> found = troth.audit(one, clients="2", device="cpu", eps=0.1, iterations=2)
    >>> found.table["client"].tolist()
    [0, 1]
    >>> folder.cleanup()

    Read on: `docs/explanation/shortcuts.md`.
    """
    run = run if isinstance(run, Run) else Run(run)
    _check(run, on, limit)
    chosen = certify.find_clients(run, clients)
    of = run.experiment.adversarial
    part = Part(of.name, lookup.check("adversarial", of.name, of.options | options))
    e = replace(run.experiment, engine=replace(run.experiment.engine, device=device))
    place = data_dir or e.resolved.get("data_dir")
    a = _ready(run, build(e, data_dir=place, plan=Plan("loop", 1)), part, on)
    _check_data(a, chosen, on)
    found: list[Row] = []
    threads = devices.threads(a.w.device)
    for done, k in enumerate(chosen, 1):
        v = files.load_model(run.path / files.PERSONAL, k).to(a.w)
        with devices.using(threads):
            found.append({"client": k} | row(a, k, v))
        if watch is not None:
            used = int(sum(each["examples"] for each in found))
            watch(Progress(done, len(chosen), done, used, f"client {k}"))
    columns = pd.DataFrame(found)
    counts = columns.columns.intersection(_COUNTS)
    columns[counts] = columns[counts].fillna(0).astype(np.int64)
    table = {str(name): column.to_numpy() for name, column in columns.items()}
    table |= _verdicts(table, limit)
    settings: dict[str, Any] = {"on": on, "limit": limit, "confidence": 1 - ALPHA}
    settings["adversarial"] = {"name": part.name, **part.options}
    rough = _rough(a, table, limit)
    file = _written(out or run.path, table, {"settings": settings, "rough": rough})
    return Found(file, table, settings, rough)


def _check(run: Run, on: str, limit: float) -> None:
    run.clients  # noqa: B018 raises Refusal if the run is not finished
    if run.experiment.personalizer.name == "none":
        raise Refusal(
            f"{run.path} has no personal models to audit (its personalizer is 'none'); "
            "train with one, such as --set personalizer.name=finetune"
        )
    if run.experiment.resolved["classes"] == 0:
        raise Refusal(
            f"the models of {run.path} predict numbers, but an audit counts correct "
            "classes; audit a run on data with classes"
        )
    if on not in ("test", "valid"):
        raise Refusal(f"on = '{on}' must be test or valid")
    if not 0 <= limit < 1:
        raise Refusal(
            f"limit = {limit} must be a difference of accuracies, at least 0 and below "
            "1, such as 0.1"
        )
    run.model(0)  # raises Refusal if models were not saved


def _ready(run: Run, built: Built, part: Part, on: On) -> Setting:
    engine = built.federation.engine
    w = certify.parameters(run).to(built.federation.broadcast.w)
    e, scale = run.experiment, built.facts["scale"]
    colored = e.data.name == "colored" and not active(e.features)
    return Setting(
        built,
        engine.task,
        adversarial(part, engine.task, scale),
        w,
        getattr(built.data, on),
        _conflicting(built),
        float(part.options.get("eps", 0)) if colored else 0.0,
    )


def _conflicting(built: Built) -> Split | None:
    """Return the test examples whose shortcut points to the wrong label.

    Return None if they are unknown.
    """
    data, test = built.data, built.data.test
    if CONFLICTING in data.tests:
        return data.tests[CONFLICTING]
    against = data.group[test.row] == 1 if len(data.group) else torch.zeros(0)
    if not bool(against.any()) or bool((data.group > 1).any()):
        return None
    owner = torch.repeat_interleave(torch.arange(len(test.size)), test.size.cpu())
    size = torch.bincount(owner[against.cpu()], minlength=len(test.size))
    start = size.cumsum(0) - size
    return Split(test.row[against], test.y[against], start, size)


def _check_data(a: Setting, chosen: list[int], on: On) -> None:
    """Raise Refusal if there are no examples, or inputs are out of range."""
    total = 0
    for k in chosen:
        for batch in batches(a, a.on, k):
            a.adversarial.expect(batch.x)
            total += len(batch.y)
    if not total:
        other = "test" if on == "valid" else "valid"
        raise Refusal(
            f"none of {len(chosen)} clients has examples to audit in its '{on}' data; "
            f"take '{other}' instead, or train with another partition.split"
        )


def _verdicts(table: dict[str, np.ndarray], limit: float) -> dict[str, np.ndarray]:
    """Return the columns of verdicts, by the interval of each client's value.

    The verdict is 1 if the interval is above the limit, 0 if below, otherwise NaN.
    """
    found = {}
    for column, of in (("suspect", "change"), ("biased", "disparity")):
        if f"{of}_low" in table:
            low, high = table[f"{of}_low"], table[f"{of}_high"]
            settled = np.where(low > limit, 1.0, np.nan)
            found[column] = np.where(high <= limit, 0.0, settled)
    return found


def _written(place: Path, table: dict[str, np.ndarray], facts: dict[str, Any]) -> Path:
    """Write the table, and its settings as JSON."""
    with files.refused(place / FILE, "give another folder with --out"):
        place.mkdir(parents=True, exist_ok=True)
        files.write_csv(place / FILE, {n: c.tolist() for n, c in table.items()})
        files.write_json((place / FILE).with_suffix(".json"), facts)
    return place / FILE


def _rough(a: Setting, table: dict[str, np.ndarray], limit: float) -> list[str]:
    """Return reasons to interpret the numbers with care."""
    texts = []
    e, left = a.built.experiment, float(np.nanmean(table["shared_adv_accuracy"]))
    if left > 0.5:
        texts.append(
            f"the shared model is still right on {left:.0%} of its adversarial "
            "examples; make them stronger with a larger --eps or more --iterations"
        )
    apart = table.get("shared_disparity", np.full(1, np.nan))
    if not np.isnan(apart).all() and np.nanmean(apart) > limit:
        texts.append(
            f"the shared model loses {np.nanmean(apart):.2f} on conflicting examples: "
            "it relies on the shortcut too, and models like it may be biased"
        )
    if a.built.hostile.any():
        texts.append(
            f"{int(a.built.hostile.sum())} of {len(a.built.hostile)} clients are "
            "malicious and may have corrupted the shared model, the baseline of all"
        )
    if e.personalizer.name == "local":
        texts.append(
            "personalizer 'local' never starts from the shared model, so 'change' "
            "compares unrelated models"
        )
    return texts
