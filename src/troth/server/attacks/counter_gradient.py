r"""The counter-gradient attack.

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
    """Move the shared model to a target, if the others repeat themselves (Sec. 5.1).

    From two consecutive shared models and its own last message it infers what all
    others sent, ĝ = (ρ' − ρ)/η − g' (Eq. 6), and sends the plausible gradient that
    leads nearest to the target (Eq. 7): h = (ρ − θ†)/η − ĝ, shortened to the radius of
    GRAD(ρ) (Proposition 2). In its first round ĝ = 0. Here updates are u = −g. Several
    attackers send equal parts of it. With aim = "local" the mean of the others' own
    models is to reach the target (Section 5.4), which takes h − ĝ/(λ·H·η) for H benign
    clients.

    Theorem 4: with regularizer `l2sq`, personalizer `coupled` solved exactly,
    aggregator `sum` (or `mean`), server `sgd`, convex losses and η ≤ 1/(3L), ρ reaches
    the target. With another server, another rule, or after rounds in which no attacker
    was asked, it goes by its last estimate, and no theorem covers it.

    Departs: the authors' code reads the others' gradients of the round before instead
    of inferring them, which its Adam server would not allow: knows = "others".

    Threat model: knows the shared models that it was sent, how many clients take part
    and the server's learning rate, and nothing of the others' messages (unless knows =
    "others": then those of the round before); controls the messages of all malicious
    clients, which act as one.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        broadcast: Broadcast of the server to the clients.
        round_: Number of the round.
        memory: ρ', its last message, its estimate, η then, the round; empty at first.
            With knows = "others" the estimate is what those sent.
        target: File with the wanted model, as one vector: .npy, or .npz with an array
            `target`.
        aim: Model that is to reach the target: the shared one or the clients' own.
        eta: Learning rate of the server; "auto": from the experiment.
        over: Whether the server adds messages up or takes their mean. "auto": from the
            experiment (any rule but `sum` counts as a mean).
        radius: Length of the longest plausible message. "auto": from `coupled` and its
            regularizer, and with any other personalizer inf, which shortens nothing.
        lam: Weight λ of the coupling, for aim = "local"; "auto": from `coupled`.
        knows: Source of the estimate: Eq. 6 ("history"), or what the others really sent
            in the round before.
        infers: Whether ρ − ρ' reveals the sum of all messages (Eq. 6); else the
            estimate keeps its value, at first 0. "auto": with server `sgd` without
            momentum and aggregator `sum` or `mean`.
        pace: Share of the way that ρ goes in a round; 1 is Eq. 7. With aim = "local" a
            smaller pace keeps ρ from overshooting while the others' own models follow.

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
    eta = 1.0 if eta == "auto" else eta  # of a server that adds the step
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
    """Estimate what the others will send: Eq. 6, if the last round was its own."""
    if memory.numel() == 0:
        return torch.zeros_like(w)
    d = len(w)
    before, sent, last, rest = memory.to(w).tensor_split([d, 2 * d, 3 * d])
    if knows or not infers or int(rest[1]) != round_ - 1:
        return last
    return (w - before) / rest[0] - sent
