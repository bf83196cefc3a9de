"""Running statistics on their way through a round.

A client's vector ends in a tail of batch normalisation's statistics. No rule may
measure, scale or adapt it as if it were parameters, so between the clients and the
server it travels in `extra`, behind what a solver sends there: left out of distances,
of attacks' scaling and of adaptive servers, checked and dropped with its message.
"""

from __future__ import annotations

import torch

from troth.types import Broadcast, Messages


def cut(messages: Messages, tail: int) -> Messages:
    """Updates without their tails; these stand at the end of `extra`."""
    if tail == 0:
        return messages
    update, end = messages.update[:, :-tail], messages.update[:, -tail:]
    return messages._replace(
        update=update, extra=torch.cat([messages.extra, end], dim=1)
    )


def cut_broadcast(broadcast: Broadcast, tail: int) -> Broadcast:
    """What the rules see of it: w without its tail, and an `extra` with it."""
    if tail == 0:
        return broadcast
    extra = torch.cat([broadcast.extra, broadcast.w[-tail:]])
    return broadcast._replace(w=broadcast.w[:-tail], extra=extra)


def join(broadcast: Broadcast, tail: int) -> Broadcast:
    """The tail back at the end of w, its variances at least 0."""
    if tail == 0:
        return broadcast
    means, variances = broadcast.extra[-tail:].chunk(2)
    w = torch.cat([broadcast.w, means, variances.clamp(min=0)])
    return broadcast._replace(w=w, extra=broadcast.extra[:-tail])


def apart(messages: Messages, tail: int) -> tuple[Messages, Messages]:
    """What solvers and what layers sent beside the update, each as an update."""
    width = messages.extra.shape[1] - tail
    solver, layers = messages.extra[:, :width], messages.extra[:, width:]
    return messages._replace(update=solver), messages._replace(update=layers)
