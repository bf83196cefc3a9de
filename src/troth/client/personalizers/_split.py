"""Models in two parts: personal parameters, and parameters that all clients share.

Personal numbers (parameters and their running statistics) never leave the client. Their
entries in the update are 0, and the client ignores these entries of the shared model. A
client's state consists of its personal numbers and their optimizer's moments.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from troth.networks import flat
from troth.networks.flat import Masks
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Client,
    Descent,
    Phase,
    Reply,
    Task,
)

Turns = Callable[[Batch], tuple[Tensor | None, Tensor | None]]
"""Batch → whether the (personal, shared) numbers change in this step; None: always."""


def chosen(masks: Masks, layers: list[str], last: int) -> Tensor:
    """Return the mask of the named layers; without names, of the `last` last layers."""
    if layers:
        return masks.matching("personalizer.layers", layers)
    return masks.last("personalizer.last", last)


class Runs:
    """A mask of the personal numbers, [d] of bool, stored as runs of equal values.

    Vectors are split and joined by torch's `split` and `cat`, which copy whole runs and
    work under vmap.
    """

    def __init__(self, mask: Tensor) -> None:
        edges = (mask[1:] != mask[:-1]).nonzero().flatten() + 1
        cuts = [0, *edges.tolist(), len(mask)] if len(mask) else []
        self.sizes = [b - a for a, b in pairwise(cuts)]
        self.own = [bool(mask[a]) for a in cuts[:-1]]

    def take(self, v: Tensor, own: bool) -> Tensor:
        """Return the personal entries of a vector if `own`, else the shared ones."""
        runs = zip(torch.split(v, self.sizes), self.own, strict=True)
        pieces = [piece for piece, mine in runs if mine == own]
        return pieces[0] if len(pieces) == 1 else torch.cat([v[:0], *pieces])

    def weave(self, own: Tensor, shared: Tensor) -> Tensor:
        """Join personal and shared numbers into one vector."""
        pieces = {
            mine: iter(torch.split(part, self._sizes(mine)))
            for mine, part in ((True, own), (False, shared))
        }
        return torch.cat([own[:0], *(next(pieces[mine]) for mine in self.own)])

    def put(self, v: Tensor, own: Tensor) -> Tensor:
        """Replace the personal entries of a vector by `own`."""
        return self.weave(own, self.take(v, own=False))

    def _sizes(self, own: bool) -> list[int]:
        runs = zip(self.sizes, self.own, strict=True)
        return [size for size, mine in runs if mine == own]


class Halves:
    """The personal and the shared half of a model, as vectors for a `Descent`.

    A `Descent` treats the last `tail` numbers of its vector as running statistics. So
    each half consists of the personal or the shared parameters, followed by all running
    statistics of the model.
    """

    def __init__(self, mask: Tensor, tail: int) -> None:
        self.has = bool(mask.any()), not bool(mask.all())  # personal, shared numbers
        self.whole, head = Runs(mask), len(mask) - tail
        parameters, statistics = mask[:head], mask[head:]
        self._half, self._bare = {}, {}
        for own in (True, False):
            mine = parameters[parameters == own]
            every = torch.full_like(statistics, own)
            self._half[own] = Runs(torch.cat([parameters, every]))
            self._bare[own] = Runs(torch.cat([mine, statistics]))

    def half(self, v: Tensor, own: bool) -> Tensor:
        """Return the personal half, or the shared half if `own` is false."""
        return self._half[own].take(v, own)

    def join(self, own: Tensor, shared: Tensor) -> Tensor:
        """Join both halves; running statistics come from the half of their layer."""
        bare = self._bare[True].take(own, True), self._bare[False].take(shared, False)
        return self.whole.weave(*bare)


def split(
    task: Task,
    mask: Tensor,
    descents: tuple[Descent, Descent],
    works: tuple[Budget, Budget],
    by_turns: bool = False,
) -> Client:
    """Make a client that keeps some parameters and sends the changes of the others.

    State: the personal numbers and their optimizer's moments, both kept between rounds
    as in `local`. The moments of the shared numbers start anew in every round, as in
    `fedavg`. Without personal numbers, the state is empty.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        mask: Mask [d] of the personal numbers.
        descents: Optimizers of the personal and of the shared numbers.
        works: Numbers of steps or epochs in a round, of the personal and of the shared
            numbers.
        by_turns: Whether the personal numbers are trained first and then the shared
            ones. If not, both change in the same steps, along one gradient.
    """
    halves = Halves(mask, task.tail)
    has = halves.has
    budgets, turns = _schedule(works, has, by_turns)

    def init(w0: Tensor) -> Carry:
        if not has[0]:
            return ()
        return halves.whole.take(w0, True), *descents[0].init(halves.half(w0, True))

    def model(w: Tensor, state: Carry) -> Tensor:
        return halves.whole.put(w, state[0]) if has[0] else w

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        ours = descents[1].init(halves.half(broadcast.w, False)) if has[1] else ()
        return model(broadcast.w, state), state[1:], ours

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        v, *moments = carry
        g, active = task.grad(v, batch), turns(batch)
        parts = [halves.half(v, own) for own in (True, False)]
        for k, own in enumerate((True, False)):
            if has[k]:
                old, pull = (parts[k], moments[k]), halves.half(g, own)
                new = descents[k].step(parts[k], pull, moments[k], broadcast.scale)
                at = active[k]
                parts[k], moments[k] = new if at is None else flat.where(at, new, old)
        return halves.join(*parts), *moments

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        v, moments, _ = carry
        own = halves.whole.take(v, True)
        update = halves.whole.put(v - broadcast.w, torch.zeros_like(own))
        return Reply(update, broadcast.extra), (own, *moments) if has[0] else ()

    return Client(init, Phase(begin, step, end, budgets), None, model)


def _schedule(
    works: tuple[Budget, Budget], has: tuple[bool, bool], by_turns: bool
) -> tuple[tuple[Budget, ...], Turns]:
    """Return the budgets of a round, and the function that says which numbers change.

    If the personal or the shared part is empty, it gets no steps.
    """
    mine, shared = works
    if not all(has):
        return (mine if has[0] else shared,), lambda batch: (None, None)
    if by_turns:
        both = Budget(mine.steps + shared.steps, mine.epochs + shared.epochs)
        return (both,), lambda batch: (mine.lasts(batch), ~mine.lasts(batch))
    if mine == shared:
        return (mine,), lambda batch: (None, None)
    return works, lambda batch: (mine.lasts(batch), shared.lasts(batch))
