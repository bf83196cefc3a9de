"""The network of an experiment, behind its normalisation."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from troth import layers, lookup, seeding
from troth.sections import Experiment
from troth.types import Refusal


def network(
    e: Experiment,
    shape: tuple[int, ...],
    classes: int,
    x: np.ndarray,
    scale: float,
) -> nn.Module:
    """The model behind its normalisation, freshly initialised from the seed."""
    function = lookup.find("model", e.model.name)
    seed = int(seeding.keys(e.seed, "model", 0, torch.tensor(0)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = lookup.call(
            function, e.model.options, shape=tuple(shape), classes=classes
        )
    if not isinstance(model, nn.Module):
        raise Refusal(
            f"model '{e.model.name}' gave a {type(model).__name__}; "
            "it must give a torch.nn.Module"
        )
    return nn.Sequential(layers.normalise(e.model.normalise, x, scale), model)
