"""Build the network of an experiment, with its input normalization."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from troth import lookup, seeding
from troth.compat import NormBase
from troth.config.schema import Experiment, ModelPart
from troth.networks import in_memory, layers, weights
from troth.types import Refusal


def network(
    e: Experiment,
    shape: tuple[int, ...],  # of one example
    classes: int,  # number of classes; 0 for a regression
    x: np.ndarray,  # [m, ...] training examples
    scale: float,  # x / scale lies between 0 and 1
    given: bool = True,  # whether to read `model.weights`
) -> nn.Module:
    """Return the normalization followed by the model, with initial weights.

    The seed determines the initial weights. Then the file `model.weights`, if set,
    replaces them, and `model.freeze` excludes tensors from training. For a model that
    is already trained, `given` is false: the file is not read.
    """
    model = _initialized(e, shape, classes)
    if given and e.model.weights:
        if e.train.precision == "float64":
            model = model.double()  # first, because the file may contain float64
        weights.put(model, e.model.weights, e.model.weights_skip)
    freeze(model, e.model.freeze)
    part = e.model
    if given and x.dtype == np.uint8 and len(shape) == 1 and part.normalize != "none":
        _check_tokens(model, part.normalize)
    first = layers.normalize(part.normalize, x, scale, part.mean, part.std)
    return nn.Sequential(first, model)


def _check_tokens(model: nn.Module, normalize: str) -> None:
    """Raise Refusal if an embedding layer would get bytes scaled to fractions."""
    layers_ = (nn.Embedding, nn.EmbeddingBag)
    name = next((n for n, m in model.named_modules() if isinstance(m, layers_)), None)
    if name is not None:
        raise Refusal(
            f"the model embeds tokens (layer '{name}'), and model.normalize = "
            f"'{normalize}' turns the bytes of x into fractions before; set "
            "model.normalize = 'none'"
        )


def _initialized(e: Experiment, shape: tuple[int, ...], classes: int) -> nn.Module:
    if not shape or 0 in shape:
        raise Refusal(
            f"one example has shape {list(shape)}, which holds nothing to learn from "
            "or has no axis; give x as [m, features] or [m, channels, height, width]"
        )
    function = lookup.find("model", e.model.name)
    seed = int(seeding.key(e.seed, "model", 0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = lookup.call(
            function, e.model.options, shape=tuple(shape), classes=classes
        )
        if not isinstance(model, nn.Module):
            raise Refusal(
                f"model '{e.model.name}' returned a {type(model).__name__}; "
                "it must return a torch.nn.Module"
            )
        _complete(model, shape)
    model.register_forward_hook(_logits)
    return model


def _complete(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Initialize the sizes of lazy layers by a call with two examples of zeros."""
    if not any(is_lazy(p) for p in (*model.parameters(), *model.buffers())):
        return
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(2, *shape))
    except Exception as error:  # whatever a network may raise
        raise Refusal(
            f"the lazy layers of {type(model).__name__} learn their sizes from inputs "
            f"of shape {[2, *shape]}, which it does not accept: "
            f"{' '.join(str(error).split())}"
        ) from None
    model.train()
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise Refusal(
            f"{type(model).__name__} does not use {', '.join(lazy)} in its forward, so "
            "that their sizes stay unknown; give them sizes, or remove them"
        )


def _logits(model: nn.Module, inputs: Any, outputs: Any) -> Any:
    """Return the logits of a Hugging Face model; other outputs are not changed."""
    return getattr(outputs, "logits", outputs)


def freeze(model: nn.Module, patterns: list[str]) -> None:
    """Exclude the tensors that the patterns select from training.

    Frozen tensors are neither trained nor sent nor attacked. For parameters,
    `requires_grad` is set to false. If the running statistics of a layer are selected,
    its attribute `frozen_statistics` is set. The layer then uses these statistics in
    training too, and does not change them. Raise Refusal if nothing is left to train.
    """
    if not patterns:
        return
    parameters = dict(model.named_parameters())
    norms = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, NormBase) and module.running_mean is not None
    }
    kept = [f"{n}.{kind}".lstrip(".") for n in norms for kind in _STATISTICS]
    chosen = weights.matched("model.freeze", patterns, [*parameters, *kept])
    for name in chosen & parameters.keys():
        parameters[name].requires_grad_(False)
    for name, module in norms.items():
        both = [f"{name}.{kind}".lstrip(".") in chosen for kind in _STATISTICS]
        if any(both) and not all(both):
            raise Refusal(
                f"model.freeze = {patterns} chooses one of '{name}.running_mean' and "
                f"'{name}.running_var', which stay or move together; choose "
                f"'{name}.running_*'"
            )
        if all(both):
            module.frozen_statistics = True  # type: ignore[assignment]
    if not any(p.requires_grad for p in parameters.values()):
        raise Refusal(
            f"model.freeze = {patterns} freezes all {len(parameters)} tensors of the "
            "model; leave at least one to train"
        )


_STATISTICS = ("running_mean", "running_var")


def identity(part: ModelPart, net: nn.Module) -> dict[str, Any]:
    """Return the digest of a network passed in memory, for a run's record, or {}."""
    there = lookup.in_memory(part.name)
    return {"model_sha256": in_memory.digest(net)} if there else {}


def facts(part: ModelPart, net: nn.Module) -> dict[str, Any]:
    """Return the number of frozen parameters and the digest of the file of weights.

    They are for a run's record, and left out if there are none.
    """
    frozen = sum(p.numel() for p in net.parameters() if not p.requires_grad)
    facts: dict[str, Any] = {"frozen_parameters": frozen} if frozen else {}
    if part.weights:
        facts["weights_sha256"] = weights.digest(part.weights)
    return facts


def unchanged(part: ModelPart, noted: dict[str, Any]) -> None:
    """Raise Refusal if the file of weights differs from the one in a run's record."""
    before = noted.get("weights_sha256")
    if before is None or not part.weights:
        return
    now = weights.digest(part.weights)
    if now != before:
        raise Refusal(
            f"model.weights = '{part.weights}' is not the file that this run started "
            f"from (SHA-256 {before[:12]}… then, {now[:12]}… now); put that one back, "
            "or train anew"
        )
