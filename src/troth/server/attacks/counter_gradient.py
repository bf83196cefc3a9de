r"""The counter-gradient attack: steer the shared model to a target.

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
    """Steer the shared model to a target, if others repeat their messages (Sec. 5.1).

    Let ρ be the shared model, ρ' and g' the shared model and the attacker's message of
    the round before, η the server's learning rate and θ† the target. The attacker
    infers what all others sent, ĝ = (ρ' − ρ)/η − g' (Eq. 6). It assumes that they will
    send ĝ again. So it sends the plausible gradient that brings ρ nearest to the target
    (Eq. 7): h = (ρ − θ†)/η − ĝ, shortened to the radius of GRAD(ρ), the set of
    gradients that an honest client can send (Proposition 2). In its first round, ĝ = 0.
    Updates here are u = −g. Several malicious clients send equal parts of h. With aim =
    "local", the attack moves the mean of the benign clients' own models to the target
    (Section 5.4). Then the attacker sends h − ĝ/(λ·H·η), for H benign clients.

    Theorem 4: with regularizer `l2sq`, personalizer `coupled` solved exactly,
    aggregator `sum` (or `mean`), server `sgd`, convex losses and η ≤ 1/(3L), ρ reaches
    the target. With another server step or aggregator, or after a round without any
    malicious client, the attack uses its last estimate of ĝ, and no theorem covers it.

    Departs: the authors' code does not infer the others' gradients of the round before,
    because Eq. 6 does not hold for its Adam server. It reads them, like knows =
    "others" here.

    Threat model: knows the shared models that it was sent, how many clients take part
    and the server's learning rate, but not the others' messages (with knows = "others",
    it knows the others' messages of the round before); controls the messages of all
    malicious clients, which act as one.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        broadcast: Broadcast of the server to the clients.
        round_: Number of the round.
        memory: The values that the attack keeps from the round before: ρ', the
            attackers' summed message, ĝ, η and the number of that round, as one vector.
            Empty in the first round. With knows = "others", ĝ is what the others sent.
        target: File with the model that the attacker wants, as one vector: .npy, or
            .npz with an array `target`.
        aim: Model to move to the target: "shared" for the shared model, "local" for the
            mean of the benign clients' own models.
        eta: Learning rate η of the server. "auto": the experiment's `server.lr`.
        over: Whether the server adds up the messages ("sum") or averages them ("mean").
            "auto": as the experiment's aggregator does; every aggregator except for
            `sum` counts as a mean.
        radius: Length of the longest plausible message; inf shortens nothing. "auto":
            with personalizer `coupled` the radius that follows from its regularizer,
            otherwise inf.
        lam: Weight λ of the coupling, used for aim = "local". "auto": λ of the
            personalizer `coupled`.
        knows: Source of the estimate of the others' messages. "history" infers them
            from the shared models (Eq. 6). "others" reads what they sent in the round
            before.
        infers: Whether two consecutive shared models reveal the sum of all messages
            (Eq. 6). If false, the estimate keeps its value, at first 0. "auto": true
            with server `sgd` without momentum and aggregator `sum` or `mean`.
        pace: Share of the way to the target that ρ moves in a round; 1 is Eq. 7. With
            aim = "local", a smaller pace keeps ρ from overshooting while the benign
            clients' own models follow.

    Returns:
        The messages, with attacked updates, and the memory.

    Example:
        >>> import numpy, tempfile
        >>> from troth.server.rules import broadcast, messages
        >>> numpy.save(file := tempfile.mkstemp(".npy")[1], [5.0])
        >>> sent, memory = messages([[1.0], [3.0]]), torch.zeros(0)
        >>> given = sent, sent.client == 1, broadcast([0.0]), 0, memory
        >>> counter_gradient(*given, target=file, over="sum")[0].update.tolist()
        [[1.0], [5.0]]
    """
    eta = 1.0 if eta == "auto" else eta  # the rate of a server that adds the whole step
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
    """Estimate what the others will send, if possible by Eq. 6 from the last round."""
    if memory.numel() == 0:
        return torch.zeros_like(w)
    d = len(w)
    before, sent, last, rest = memory.to(w).tensor_split([d, 2 * d, 3 * d])
    if knows or not infers or int(rest[1]) != round_ - 1:
        return last
    return (w - before) / rest[0] - sent
