"""Train several runs at once: every step is computed for the clients of all runs.

These runs have the same data, model and personalizer. They may differ only in the seed,
the initial weights, the malicious clients, the attack and the server's rules
(`federation/stacked.py`). Each run writes a folder and checkpoints like any other run,
and can be resumed separately.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from troth import devices
from troth.build import Built, build, device
from troth.config import reader
from troth.config.schema import Experiment
from troth.engine.local_training import Plan
from troth.federation.rounds import Federation
from troth.runs import train as runs
from troth.types import Refusal

if TYPE_CHECKING:
    from troth.federation.stacked import Stack

_SERVERS = ("filter", "aggregator", "server")
MAY_DIFFER = ("seed", "adversary", "attack", "corruption", *_SERVERS)
"""Sections in which runs that are trained together may differ."""
_ASIDE = ("resolved", "name", "checkpoint", "output", "track")


def kind(experiment: Experiment) -> str:
    """Return a key; runs with equal keys can be trained together."""
    tree = reader.to_dict(experiment)
    kept = {k: v for k, v in tree.items() if k not in (*MAY_DIFFER, *_ASIDE)}
    kept["model"] = {k: v for k, v in tree["model"].items() if k != "weights"}
    if experiment.adversary.start:  # some clients start from other models
        kept["start"] = experiment.adversary.start
    return json.dumps(kept, sort_keys=True, default=str)


def train(
    experiments: Sequence[Experiment],
    paths: Sequence[Path],
    *,
    watch: runs.Watch | None = None,
    data_dir: str | None = None,
    plan: Plan | None = None,
) -> None:
    """Train runs with equal keys of `kind`, each into a new folder.

    If stopped by Ctrl-C or killed, each run can be resumed separately. If not all runs
    fit in memory, they are trained in several parts. Clients are computed together
    here, even if one run would compute them one by one. If vmap does not support the
    network, the runs are trained one after another. A plan says how clients are
    batched; without one, the engine measures which plan is fastest.
    """
    _check(experiments)
    first = build(experiments[0], data_dir=data_dir, plan=plan)
    if "vmap" not in first.federation.engine.ways:
        plan = first.federation.engine.plan
        for e, path in zip(experiments, paths, strict=True):
            runs.train(e, path, watch=watch, data_dir=data_dir, plan=plan)
        return
    some = fit(first)
    if some < len(experiments):
        del first
        some = -(-len(experiments) // -(-len(experiments) // some))  # equal parts
        for k in range(0, len(experiments), some):
            few, theirs = experiments[k : k + some], paths[k : k + some]
            train(few, theirs, watch=watch, data_dir=data_dir, plan=plan)
        return
    chosen = first.federation.engine.plan
    if chosen.apart:
        cohort = experiments[0].train.cohort or first.federation.population.n
        chosen = Plan("vmap", cohort, threads=chosen.threads)
        first.federation.engine.use(chosen)
    rest = [build(e, data_dir=data_dir, plan=chosen) for e in experiments[1:]]
    every = [first, *rest]
    for built in every:
        if built.federation.population.on_disk or len(built.federation.newcomers):
            raise Refusal(
                "runs with newcomers, or with state on disk, are not trained together; "
                "train them one by one"
            )
    alike: dict[Any, list[runs.Begun]] = {}
    for built, path in zip(every, paths, strict=True):
        begun = runs.begin(built, path, data_dir)
        alike.setdefault(_likeness(built), []).append(begun)
    for same in alike.values():
        runs.go_on(same, watch, _stacks([run.built.federation for run in same]))


def _check(experiments: Sequence[Experiment]) -> None:
    """Raise Refusal if the keys of `kind` differ."""
    if len({kind(e) for e in experiments}) > 1:
        raise Refusal(
            "runs that are trained together may differ only in "
            f"{', '.join(MAY_DIFFER)}; train the others separately"
        )


def _likeness(built: Built) -> Any:
    """Return a key of values that must be equal in runs that are trained together.

    These are the number of clients, and the tensors of the network that are not
    trained. The latter include the statistics that normalize inputs, which may differ
    between seeds.
    """
    net, f = built.network, built.federation
    frozen = bool(built.experiment.model.freeze)
    still: list[Tensor] = [p for p in net.parameters() if not p.requires_grad]
    still += [b for name, b in net.named_buffers() if frozen or name.startswith("0.")]
    numbers = [t.detach().cpu().numpy().tobytes() for t in still]
    return f.population.n, tuple(numbers)


def joint(experiment: Experiment, apart: bool | None = None) -> bool:
    """Return whether to train a run together with others.

    If `apart` is True, runs are trained one after another; if False, together whenever
    possible. If it is None, they are trained together on a GPU, or if `engine.how` is
    `vmap` or `compiled`. (On a CPU, large models are trained fastest with one client at
    a time, so training runs together is no faster.)
    """
    if apart or experiment.evaluate.newcomers or experiment.engine.store == "disk":
        return False
    cuda = device(experiment.engine.device).type == "cuda"
    return apart is False or cuda or experiment.engine.how in ("vmap", "compiled")


def groups(
    experiments: Sequence[Experiment], apart: bool | None = None
) -> list[list[int]]:
    """Return the positions of runs that are computed together; most are alone.

    `apart` is as in `joint`, but None trains runs together on a GPU only.
    """
    kinds: dict[str, list[int]] = {}
    for k, e in enumerate(experiments):
        cpu = device(e.engine.device).type != "cuda"
        together = joint(e, cpu if apart is None else apart)
        kinds.setdefault(kind(e) if together else str(k), []).append(k)
    return list(kinds.values())


def grid(
    planned: Sequence[tuple[Experiment, Path]],
    apart: bool | None = None,
    *,
    watch: runs.Watch | None = None,
    data_dir: str | None = None,
) -> None:
    """Train those runs of a grid that can be trained together; skip the others.

    Runs that do not fit in memory are also skipped, and can be resumed. `apart` is as
    in `groups`.
    """
    for same in groups([e for e, _ in planned], apart):
        if len(same) > 1:
            experiments, paths = zip(*(planned[k] for k in same), strict=True)
            held(experiments, paths, watch=watch, data_dir=data_dir)


def held(experiments: Sequence[Experiment], paths: Sequence[Path], **how: Any) -> bool:
    """Train runs together; return whether they fit in memory.

    If not, free the memory. This is done after the `except` block, because an exception
    that is being handled keeps its tensors alive.
    """
    try:
        train(experiments, paths, **how)
        return True
    except (RuntimeError, MemoryError) as error:
        if not devices.exhausted(error):
            raise
    devices.tidy()
    return False


def fit(built: Built) -> int:
    """Return how many such runs fit in 70 % of the free memory; at least one.

    A run needs its clients' states. Each client in training needs about six vectors of
    the size of the model (such as the shared model, the copy in training, gradients and
    updates).
    """
    f = built.federation
    where, host = f.engine.device, torch.device("cpu")
    cohort = built.experiment.train.cohort or f.population.n
    rows = max(cohort, runs.at_once(f.engine.plan))
    stepping = 6 * rows * f.engine.task.d * f.engine.feed.dtype.itemsize
    if built.facts["store"] == "device" or where == host:
        return max(1, _room(where) // (built.need.rows + stepping + 1))
    few = _room(host) // (built.need.rows + 1)
    return max(1, min(few, _room(where) // (stepping + 1)))


def _room(place: torch.device) -> int:
    return 7 * devices.free(place) // 10


def _stacks(federations: list[Federation]) -> list["Stack"]:
    """Divide federations into stacks that are trained together.

    On a GPU, there are two stacks: one trains while the updates of the other are
    aggregated. On a CPU, or for fewer than three federations, there is one stack.
    """
    from troth.federation.stacked import Stack

    half = -(-len(federations) // 2)
    if federations[0].engine.device.type != "cuda" or half < 2:
        half = len(federations)
    return [Stack(federations[k : k + half]) for k in range(0, len(federations), half)]
