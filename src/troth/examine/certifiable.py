"""What of a run can be certified: which models, and whose."""

from __future__ import annotations

import numpy as np

from troth.certificates.smoothing import Smoothing
from troth.runs.load import Run, judged
from troth.types import Refusal

MODELS = ("personal", "shared", "local")


def clients(run: Run, which: str) -> list[int]:
    """Whose models: all, so many, or these.

    Raises:
        Refusal: no such clients.
    """
    good = np.flatnonzero(judged(run.clients)).tolist()
    if which == "all":
        return good
    try:
        ids = [int(part) for part in which.split(",") if part.strip()]
    except ValueError:
        ids = []
    if not ids or min(ids) < 0:
        raise Refusal(
            f"clients = '{which}' is not 'all', a number of them such as 10, or ids "
            "such as 0,3,8 (one alone: 3, or --client 3)"
        )
    if "," not in which:
        if not 1 <= ids[0] <= len(good):
            raise Refusal(
                f"clients = {ids[0]} must be 1 to {len(good)}, the benign clients of "
                "this run that took part"
            )
        return good[: ids[0]]
    for k in ids:
        run.check(k)
    return sorted({*ids})


def check(run: Run, s: Smoothing) -> None:
    """Refuse a run whose models choose no single class, or see no images."""
    e, facts = run.experiment, run.experiment.resolved
    if not run.finished:
        raise Refusal(
            f"{run.path} is not finished, and its models are not saved yet; go on with "
            f"it by: troth resume {run.path}"
        )
    if facts["classes"] == 0 or facts.get("multi_label"):
        kind = "several labels an example" if facts["classes"] else "numbers"
        raise Refusal(
            f"the models of {run.path} predict {kind}, and certificates are of a "
            "single class; certify a run on data with one class an example"
        )
    if s.transform != "pixel" and len(facts["shape"]) != 3:
        raise Refusal(
            f"transform '{s.transform}' deforms images, and one example of "
            f"'{e.data.name}' has shape {facts['shape']}; take transform 'pixel'"
        )


def sources(
    run: Run, local: Run | None, models: tuple[str, ...] | None
) -> dict[str, Run]:
    """The run that each of the models comes from."""
    own = run.experiment.personalizer.name
    if models is None:
        models = ("shared",) if own == "none" else ("personal", "shared")
        models += ("local",) if local is not None else ()
    unknown = [name for name in models if name not in MODELS]
    if unknown or not models:
        raise Refusal(
            f"models = '{','.join(models)}' must name some of {', '.join(MODELS)}, "
            "with commas between them"
        )
    found = {}
    for name in dict.fromkeys(models):
        found[name] = run if name != "local" else _local(run, local)
        if name == "personal" and own == "none":
            raise Refusal(
                f"{run.path} has no personal models (its personalizer is 'none'): take "
                "--models shared, or train with a personalizer, such as --set "
                "personalizer.name=finetune"
            )
        if name != "shared":
            found[name].model(0)  # refuses where they were not saved
    return found


def _local(run: Run, local: Run | None) -> Run:
    """The run whose personal models saw no others, on the same clients' data."""
    if local is None:
        if run.experiment.personalizer.name == "local":
            return run
        raise Refusal(
            "local models come from another run: train the same experiment with "
            "--set personalizer.name=local, and give its folder with --local"
        )
    name = local.experiment.personalizer.name
    if name != "local":
        raise Refusal(
            f"{local.path} has personalizer '{name}'; local models come from a run "
            "with personalizer.name = 'local'"
        )
    for part in ("data", "partition", "seed"):
        a, b = getattr(run.experiment, part), getattr(local.experiment, part)
        if a != b:
            raise Refusal(
                f"{local.path} differs from {run.path} in '{part}', so that its "
                "clients hold other examples; train it with the same data, partition "
                "and seed"
            )
    return local
