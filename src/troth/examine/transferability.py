"""Compare a personal model with the shared model on adversarial examples of the latter.

Theorems, equations and appendices are those of Wang et al. (2021), *Robust and
Personalized Federated Learning with Spurious Features*. f_g is the shared (global)
model w, and f_p the personal model v. ℓ is the loss of one example, and ∇ℓ its gradient
in the input.

References: wang2021robust.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from troth.client.adversarial._worst import Adversarial, rows
from troth.data import labels
from troth.types import Batch, Task

SPURIOUS = 3  # d_s of colored images: red, green and blue


class Seen(NamedTuple):
    """Results of a shared model w and a personal model v on examples, [b] each."""

    right: Tensor  # v on x
    shared_right: Tensor  # w on x
    adv_right: Tensor  # v on x_adv, made on w
    shared_adv_right: Tensor  # w on x_adv
    l_trans: Tensor  # ℓ_trans (see `look`)
    angle: Tensor  # θ in degrees; NaN if a gradient is 0
    ratio: Tensor  # γ; NaN if both gradients are 0
    confidence: Tensor  # probability that v assigns to its predicted class of x
    loss: Tensor  # loss of v on x


class Terms(NamedTuple):
    """The terms of Theorem 3 for b examples, [b] each, for inputs scaled to 0 … 1."""

    gradient: Tensor  # ‖∇ℓ(f_g(x), y)‖
    spurious: Tensor  # ‖∇ℓ(f_g(x), y)‖·sin θ_g: its length along spurious features
    gamma: Tensor  # γ = ‖∇ℓ(f_g)‖ / ‖∇ℓ(f_p)‖; NaN if both gradients are 0
    l_trans: Tensor  # ℓ_trans (see `look`)
    curvature: Tensor  # curvature of ℓ along δ: the larger one of both models


class Bound(NamedTuple):
    """The bound of Theorem 3 for one client, and its terms (see `bound`)."""

    total: float  # the bound
    gradient: float  # E‖∇ℓ(f_g(x), y)‖
    sin_theta_g: float
    gamma_min: float  # smallest γ
    l_trans: float  # E ℓ_trans
    lam: float  # λ, estimated from below


def look(
    task: Task, adversarial: Adversarial, w: Tensor, v: Tensor, batch: Batch
) -> Seen:
    """Compare w and v on examples x and on adversarial examples x_adv of w.

    ℓ_trans = (ℓ(w, x_adv) − ℓ(w, x)) − (ℓ(v, x_adv) − ℓ(v, x)) is how much more the
    loss of w increases than the loss of v. θ is the angle between the gradients of both
    losses in x, and γ = ‖∇ℓ(w)‖ / ‖∇ℓ(v)‖ (Appendix C).

    Args:
        task: Task of the clients.
        adversarial: Method that makes adversarial examples.
        w: Shared model.
        v: Personal model.
        batch: Examples of a client.
    """
    x, y = batch.x.to(w.dtype), batch.y
    worst = adversarial.worst(w, batch)
    outputs_w, loss_w, g_w = task.climb(w, x, y)
    outputs_v, loss_v, g_v = task.climb(v, x, y)
    adv_v, adv_loss_v, _ = task.climb(v, worst.x, y, True)
    a, b = (g.flatten(1).cpu().double() for g in (g_w, g_v))
    return Seen(
        labels.right(outputs_v, y),
        labels.right(outputs_w, y),
        labels.right(adv_v, y),
        labels.right(worst.outputs, y),
        (worst.loss - loss_w) - (adv_loss_v - loss_v),
        angle(a, b),
        a.norm(dim=1) / b.norm(dim=1),
        confidence(outputs_v, y),
        loss_v,
    )


def angle(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle in degrees between each row of a and that of b, [b].

    It is NaN if one of the rows is 0. The half-angle formula gives exactly 0 for equal
    rows.
    """
    a, b = (g / g.norm(dim=1, keepdim=True) for g in (a, b))
    half = torch.atan2((a - b).norm(dim=1), (a + b).norm(dim=1))
    return 2 * half.rad2deg()


def confidence(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the probability that a model assigns to its predicted class, [b].

    If examples have several labels, this is the mean over labels. A single output is
    the margin between two classes.

    Args:
        outputs: Outputs of the model, [b, outputs].
        y: Labels: [b], or [b, labels] if examples have several labels.
    """
    if outputs.shape[1] == 1 or (y.dim() == 2 and not labels.soft(y)):
        return outputs.abs().sigmoid().mean(dim=1)
    return outputs.softmax(dim=1).amax(dim=1)


def terms(
    task: Task, scale: float, eps: float, w: Tensor, v: Tensor, batch: Batch
) -> Terms:
    """Return the terms of Theorem 3 for colored images.

    A colored image is a gray image in one color: each of its three channels is a
    multiple of the gray image. Recoloring adds a multiple of the gray image to each
    channel. These three directions are the spurious features (d_s = 3), and all
    directions orthogonal to them are robust features. The gray image is known up to a
    factor: it is the sum of the channels. sin θ_g is the share of the gradient's length
    along the spurious features.

    As in the proof, the change δ of an input is ε·∇ℓ/‖∇ℓ‖, with ℓ2 norm ε. It does not
    depend on the adversarial method.

    Args:
        task: Task of the clients.
        scale: Value of x that is scaled to 1.
        eps: ε, for inputs scaled to 0 … 1.
        w: Shared model.
        v: Personal model.
        batch: Examples of a client.
    """
    x, y = batch.x.to(w.dtype), batch.y
    _, loss_w, g_w = task.climb(w, x, y)
    _, loss_v, g_v = task.climb(v, x, y)
    g_w, g_v = (g.cpu().double() * scale for g in (g_w, g_v))
    size, other = (g.flatten(1).norm(dim=1) for g in (g_w, g_v))
    gray = x.cpu().double().sum(dim=1, keepdim=True)
    gray = gray / rows(_positive(gray.flatten(1).norm(dim=1)), gray)
    along = (g_w * gray).flatten(2).sum(dim=2)  # [b, 3]
    delta = eps * g_w / rows(_positive(size), g_w)
    moved = (x.cpu().double() + scale * delta).to(w.dtype).to(w.device)
    gains, bends = [], []
    for parameters, before, g in ((w, loss_w, g_w), (v, loss_v, g_v)):
        _, after, _ = task.climb(parameters, moved, y, True)
        gains.append((after - before).cpu().double())
        straight = (g * delta).flatten(1).sum(dim=1)
        bends.append(2 * (gains[-1] - straight).abs() / eps**2)
    curved = torch.maximum(*bends)
    return Terms(size, along.norm(dim=1), size / other, gains[0] - gains[1], curved)


def bound(t: Terms, eps: float) -> Bound:
    """Estimate the upper bound of Theorem 3 on a loss disparity.

    The disparity is the personal model's loss on conflicting examples, in which the
    spurious features point to the wrong label, minus its loss on other examples. The
    bound is √d_s·(((sin θ_g + √2)/γ_min − 1)·E‖∇ℓ(f_g)‖ + E ℓ_trans/ε + λ·ε). `terms`
    explains the symbols. In the theorem, λ is an upper bound on the curvature of the
    loss everywhere. Here λ is the largest curvature found along δ, so the result is
    only an estimate.

    The formula is as printed, although its proof uses the inner product ⟨∇, 1⟩ in place
    of ⟨∇, Δ⟩ with the change Δ (Eq. 5). If the shared model is very certain of a single
    example, γ_min is small, and the bound is too large to be useful.

    Args:
        t: Terms of all examples of a client.
        eps: ε, for inputs scaled to 0 … 1.
    """
    gradient, l_trans = float(t.gradient.mean()), float(t.l_trans.mean())
    sine = float(t.spurious.mean()) / gradient if gradient else 0.0
    known = t.gamma[~t.gamma.isnan()]
    least = float(known.min()) if len(known) else math.nan
    lam = float(t.curvature.max())
    factor = (sine + math.sqrt(2)) / least - 1 if least else math.inf
    total = factor * gradient if gradient else 0.0
    total = math.sqrt(SPURIOUS) * (total + l_trans / eps + lam * eps)
    return Bound(total, gradient, sine, least, l_trans, lam)


def _positive(size: Tensor) -> Tensor:
    """Replace lengths of 0 by 1, to divide by them."""
    return torch.where(size > 0, size, torch.ones_like(size))
