r"""The counter-gradient attack: move the shared model to a target.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from troth.config.checks import coupled, expect
from troth.networks import target_model
from troth.server.attacks import _crowd
from troth.types import Broadcast, Messages

Auto = Literal["auto"]


def counter_gradient(
    messages: Messages,
    hostile: Tensor,
    broadcast: Broadcast,
    round_: int,
    memory: Tensor,
    *,
    target: str,
    aim: Literal["shared", "local"] = "shared",
    eta: float | Auto = "auto",
    over: Literal["auto", "sum", "mean"] = "auto",
    radius: float | Auto = "auto",
    lam: float | Auto = "auto",
    knows: Literal["history", "others"] = "history",
    infers: bool | Auto = "auto",
    pace: float = 1.0,
) -> tuple[Messages, Tensor]:
    """Move the shared model to a target, if all others repeat their messages.

    This is the attack of Section 5.1 of the paper. Let ρ be the shared model, ρ' and g'
    the shared model and the attacker's message of the previous round, η the server's
    learning rate, and θ† the target. The attacker infers the sum of the messages of all
    others, ĝ = (ρ' − ρ)/η − g' (Eq. 6), and assumes that they will send ĝ again. So it
    sends the gradient that brings ρ nearest to the target (Eq. 7): h = (ρ − θ†)/η − ĝ.
    h is shortened to the largest norm that an honest client's gradient can have
    (Proposition 2). In the first round, ĝ = 0. Updates are negative gradients, u = −g.
    Several malicious clients send equal parts of h. With aim = "local", the attack
    moves the mean of the benign clients' personal models to the target (Section 5.4).
    Then h − ĝ/(λ·H·η) replaces h, for H benign clients.

    Theorem 4 of the paper: ρ reaches the target with regularizer `l2sq`, personalizer
    `coupled` solved exactly, aggregator `sum` (or `mean`), server `sgd`, convex losses
    of curvature at most L, and η ≤ 1/(3L). With another server step or aggregator, or
    after a round without malicious clients, the attack uses its previous ĝ, and the
    theorem does not apply.

    Departs: in the authors' code, the attacker knows the others' messages of the
    previous round, as with knows = "others", because Eq. 6 does not hold for the code's
    server step, Adam.

    Threat model: knows the shared models that it was sent, how many clients take part
    and the server's learning rate, but not the others' messages (with knows = "others",
    it knows the others' messages of the previous round); controls the messages of all
    malicious clients, which act as one.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        broadcast: Server's message to the clients, with the shared model.
        round_: Number of the round.
        memory: Values of the previous round as one vector: ρ', the sum of the malicious
            messages, ĝ, η and the number of the round. Empty in the first round. With
            knows = "others", ĝ is the sum of the others' messages.
        target: File with the model that the attacker wants, as one vector: .npy, or
            .npz with an array `target`.
        aim: Model to move to the target: the "shared" model, or the mean of the benign
            clients' personal models ("local").
        eta: Learning rate η of the server. "auto" means the experiment's `server.lr`.
        over: Whether the server adds the messages ("sum") or averages them ("mean").
            "auto" means "sum" if the experiment's aggregator is `sum`, else "mean".
        radius: Largest norm of an honest client's message; with inf, h is not
            shortened. "auto" means the value that follows from the regularizer with
            personalizer `coupled`, and otherwise inf.
        lam: Weight λ of the regularizer, for aim = "local". "auto" means λ of the
            personalizer `coupled`.
        knows: Source of ĝ. "history" infers it from the shared models (Eq. 6). With
            "others", the attacker knows what the others sent in the previous round.
        infers: Whether two consecutive shared models reveal the sum of all messages
            (Eq. 6). If false, ĝ stays 0. "auto" means true with server `sgd` without
            momentum and aggregator `sum` or `mean`.
        pace: Part of the way to the target that ρ moves in a round; 1 is Eq. 7. With
            aim = "local", ρ does not overshoot with a small pace, because the benign
            clients' personal models have time to follow.

    Returns:
        The messages, with the malicious updates replaced, and the new memory.

    Example:
        >>> import numpy, tempfile
        >>> from troth.server.rules import broadcast, messages
        >>> numpy.save(file := tempfile.mkstemp(".npy")[1], [5.0])
        >>> sent, memory = messages([[1.0], [3.0]]), torch.zeros(0)
        >>> given = sent, sent.client == 1, broadcast([0.0]), 0, memory
        >>> counter_gradient(*given, target=file, over="sum")[0].update.tolist()
        [[1.0], [5.0]]
    """
    eta = 1.0 if eta == "auto" else eta  # default learning rate of the server
    radius = math.inf if radius == "auto" else radius
    lam = 1.0 if lam == "auto" and aim == "shared" else lam
    lam = coupled("counter_gradient's lam", lam)
    for name, value in (("eta", eta), ("lam", lam), ("pace", pace)):
        must = "a finite number above 0"
        expect(0 < value < math.inf, f"counter_gradient's {name}", value, must)
    must = "above 0; inf shortens nothing"
    expect(radius > 0, "counter_gradient's radius", radius, must)
    k, w = int(hostile.sum()), broadcast.w.double()
    wanted = target_model.read(target, len(w)).to(w)
    if k == 0:
        return messages, memory
    rate = eta / (1 if over == "sum" else len(hostile))
    estimate = _estimate(memory, w, round_, knows == "others", infers is not False)
    way = wanted - w
    if aim == "local":
        way = way - estimate / (lam * max(1, len(hostile) - k))
    total = pace * way / rate - estimate
    sent = total / k
    far = float(torch.linalg.vector_norm(sent))
    sent = sent if far <= radius else sent * (radius / far)
    last = messages.update[~hostile].double().sum(0) if knows == "others" else estimate
    kept = [w, sent * k, last, w.new_tensor([rate, round_])]
    return _crowd.sent(messages, hostile, sent), torch.cat(kept)


def _estimate(
    memory: Tensor, w: Tensor, round_: int, knows: bool, infers: bool
) -> Tensor:
    """Return ĝ, the estimate of the others' messages, by Eq. 6 if possible."""
    if memory.numel() == 0:
        return torch.zeros_like(w)
    d = len(w)
    before, sent, last, rest = memory.to(w).tensor_split([d, 2 * d, 3 * d])
    if knows or not infers or int(rest[1]) != round_ - 1:
        return last
    return (w - before) / rest[0] - sent
