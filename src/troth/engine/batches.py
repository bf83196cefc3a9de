"""Draw the examples of each client's steps and gather them on the device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices, seeding
from troth.types import Batch, Data, Groups, Phase, Split

_BYTES = {"cuda": 2**28, "cpu": 2**22}  # gathered at once; on a CPU they fit in cache


class _Piles(NamedTuple):
    """Training slots (indices of examples) in piles, one per client and group."""

    slot: np.ndarray  # [slots]
    first: np.ndarray  # [n] index of each client's first pile
    start: np.ndarray  # [piles] index in `slot` at which each pile begins
    size: np.ndarray  # [piles] number of slots


class _Order(NamedTuple):
    """The places of examples in the steps of a cohort, before they are shuffled."""

    order: np.ndarray  # [batch, steps, clients] place among the client's examples
    weight: np.ndarray  # [batch, steps, clients]
    epoch: np.ndarray  # [steps, clients]
    size: np.ndarray  # [steps, clients] number of examples, at least 1
    shuffled: np.ndarray  # [steps, clients] whether a client has more than a batch


class Drawn(NamedTuple):
    """Slots (indices of examples), weights and keys for the steps of some clients."""

    slots: Tensor  # [steps, clients, batch]
    weight: Tensor  # [steps, clients, batch]
    step: Tensor  # [steps] numbers of the steps in the round
    per_epoch: Tensor  # [clients]
    key: Tensor  # [clients]
    group: Tensor  # [steps, clients, batch], or [steps, clients, 0] without groups


class Feed:
    """Batches of many clients, whose examples depend on seed, round, client and epoch.

    In each epoch, a client's examples are shuffled and divided into batches. The last
    batch is padded with examples of weight 0, or left out if `drop_last`. A client with
    fewer examples than a batch trains on all of them in every step.

    Departs: in the code of Ditto's authors, a client continues its random order of
    examples in its next round. Here every round starts a new order, which depends only
    on the seed and the number of the round.
    """

    def __init__(
        self, data: Data, batch: int, drop_last: bool, seed: int, dtype: torch.dtype
    ) -> None:
        self.data, self.seed, self.dtype = data, seed, dtype
        self.sizes = data.train.size.cpu()
        self.batch = batch or max(1, int(self.sizes.max()))
        whole = self.sizes // self.batch
        rest = (self.sizes % self.batch > 0) & (not drop_last)
        self.per_epoch = torch.clamp(whole + rest.long(), min=1)
        self._sizes, self._per_epoch = self.sizes.numpy(), self.per_epoch.numpy()
        self._starts = data.train.start.cpu().numpy()
        self._last = max(0, data.train.row.shape[0] - 1)  # largest slot, for padding
        short = self.sizes < self.batch if drop_last else self.sizes % self.batch > 0
        self.padded = bool((short | (self.sizes == 0)).any())
        self._code, self.groups = self._grouped()
        self._last_order: tuple[Any, _Order] | None = None
        self._nothing: dict[int, Batch] = {}  # empty batches by number of clients

    def _grouped(self) -> tuple[np.ndarray, Groups]:
        """Return each slot's group (from 0) and each client's number of groups."""
        train, marks = self.data.train, self.data.group
        if not len(marks):
            return np.zeros(0, np.int64), Groups(0, np.zeros(len(self.sizes), np.int64))
        found, code = np.unique(marks[train.row].cpu().numpy(), return_inverse=True)
        owner = np.repeat(np.arange(len(self.sizes)), self._sizes)
        pairs = np.unique(owner * len(found) + code) // max(1, len(found))
        return code, Groups(len(found), np.bincount(pairs, minlength=len(self.sizes)))

    @cached_property
    def _piles(self) -> _Piles:
        """Return the training slots in piles, one per client and group."""
        owner = np.repeat(np.arange(len(self.sizes)), self._sizes)
        slot = np.lexsort((self._code, owner))
        _, size = np.unique(
            owner * max(1, self.groups.number) + self._code, return_counts=True
        )
        held = self.groups.held
        return _Piles(slot, np.cumsum(held) - held, np.cumsum(size) - size, size)

    def steps(self, phase: Phase) -> Tensor:
        """Return the number of steps of every client in a phase, [n].

        If a budget has `examples`, E epochs of a client with `size` examples take ⌊E ·
        size / batch⌋ steps, and at least E. Otherwise an epoch takes one step per
        batch.
        """
        each = [
            b.steps + (b.epochs * self.sizes // self.batch).clamp(min=b.epochs)
            if b.examples
            else b.in_steps(self.per_epoch)
            for b in phase.budgets
        ]
        return torch.stack(each).amax(0)

    def alike(self, other: Feed) -> bool:
        """Return whether another feed draws the same batches for the same clients."""
        names = ("seed", "batch", "_last", "_per_epoch", "_sizes", "_starts", "_code")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return self.dtype == other.dtype and all(np.array_equal(*p) for p in pairs)

    def draw(
        self, ids: np.ndarray, steps: int, round_: int, by_group: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Draw slots and weights of every step on the host: [steps, clients, batch].

        With `by_group`, clients with examples of several groups draw with replacement:
        first one of the client's groups, all equally likely, then one of the group's
        examples.

        The code is numpy on one thread, because the arrays are small, and starting
        threads for each operation would take longer.
        """
        plan = self._order(ids, steps)
        order = plan.order
        if plan.shuffled.any():
            key = seeding.keys(self.seed, "batch", round_, torch.from_numpy(ids))
            key = seeding.fold(key, torch.from_numpy(plan.epoch))
            moved = seeding.permute(key.numpy(), order, plan.size)
            order = np.where(plan.shuffled, moved, order)
        slots, weight = np.minimum(order + self._starts[ids], self._last), plan.weight
        if by_group and (mixed := self.groups.held[ids] > 1).any():
            key = seeding.keys(self.seed, "group", round_, torch.from_numpy(ids))
            slots = np.where(mixed, self._balanced(key, ids, steps), slots)
            weight = np.where(mixed, 1 / self.batch, weight)
        kind = np.float64 if self.dtype == torch.float64 else np.float32
        return (
            torch.from_numpy(np.ascontiguousarray(slots.transpose(1, 2, 0))),
            torch.from_numpy(weight.transpose(1, 2, 0).astype(kind, order="C")),
        )

    def _order(self, ids: np.ndarray, steps: int) -> _Order:
        """Return what is the same in all rounds of this cohort; keep the last one."""
        key, last = (ids.tobytes(), steps), self._last_order
        if last is None or last[0] != key:
            each = (steps, len(ids))
            size = np.broadcast_to(self._sizes[ids], each).copy()
            per_epoch = np.broadcast_to(self._per_epoch[ids], each).copy()
            epoch, within = np.divmod(np.arange(steps)[:, None], per_epoch)
            position = within * self.batch + np.arange(self.batch)[:, None, None]
            inside = position < size  # long inner loops in numpy
            weight = inside / np.maximum(inside.sum(0), 1)
            least = np.maximum(size, 1)
            found = _Order(position % least, weight, epoch, least, size > self.batch)
            self._last_order = last = key, found
        return last[1]

    def drawn(
        self, ids: np.ndarray, steps: int, round_: int, by_group: bool, alone: bool
    ) -> Drawn:
        """Draw batches, and move them to the device with keys and groups.

        If `alone`, there is a single client, and its batches are not padded.
        """
        slots, weight = self.draw(ids, steps, round_, by_group)
        if alone:
            own = max(1, int(self.sizes[ids[0]]))
            slots, weight = slots[..., :own], weight[..., :own]
        device = self.data.x.device
        per_epoch = self.per_epoch[torch.from_numpy(ids)]
        return Drawn(
            devices.sent(slots, device),
            devices.sent(weight, device),
            torch.arange(steps, device=device),
            devices.sent(per_epoch, device),
            devices.sent(self.keys(ids, round_), device),
            devices.sent(self.group(slots, by_group), device),
        )

    def gathered(self, drawn: Drawn) -> Iterator[tuple[int, Batch]]:
        """Yield the number and the batch of every step; a batch is [clients, batch, …].

        Several steps are gathered at once.
        """
        for first, block in self.blocks(drawn):
            for k in range(len(block.t)):
                yield first + k, block.at(k)

    def blocks(self, drawn: Drawn, most: int = 0) -> Iterator[tuple[int, Batch]]:
        """Yield the batches of several steps, with the number of the first step.

        They are [steps, clients, batch, …] (see `Batch.at`). A block has `most` steps,
        or as many as `block` allows.
        """
        steps, clients = drawn.slots.shape[:2]
        some = most or self.block(clients)
        for first in range(0, steps, some):
            part = slice(first, first + some)
            x, y = self.gather(drawn.slots[part], self.data.train)
            known = drawn.weight[part], drawn.step[part]
            yield (
                first,
                Batch(x, y, *known, drawn.per_epoch, drawn.key, drawn.group[part]),
            )

    def _balanced(self, key: Tensor, ids: np.ndarray, steps: int) -> np.ndarray:
        """Draw slots [batch, steps, clients]; a client's groups are equally likely."""
        some, held = self._piles, np.maximum(self.groups.held[ids], 1)[:, None]
        random = seeding.bits(key, 2 * steps * self.batch)
        first, second = random[:, ::2], random[:, 1::2]  # fewer steps draw a prefix
        pile = seeding.below(first, torch.from_numpy(held)).numpy()
        pile += some.first[ids][:, None]
        size = torch.from_numpy(some.size[pile])
        slots = some.slot[some.start[pile] + seeding.below(second, size).numpy()]
        shaped: np.ndarray = slots.reshape(len(ids), steps, self.batch)
        return shaped.transpose(2, 1, 0)

    def group(self, slots: Tensor, asked: bool) -> Tensor:
        """Return the groups of training slots, from 0; empty if not `asked`."""
        if not asked or not len(self._code):
            slots = slots[..., :0]
        return torch.from_numpy(self._code[slots.numpy()])

    def keys(self, ids: np.ndarray, round_: int) -> Tensor:
        """Return one key per client for this round.

        It determines all random numbers of the client in the round except those that
        draw batches.
        """
        return seeding.keys(self.seed, "noise", round_, torch.from_numpy(ids))

    def common(self, round_: int) -> Tensor:
        """Return the key of random numbers that all clients of this round share."""
        return seeding.key(self.seed, "common", round_, device=self.data.x.device)

    def block(self, clients: int) -> int:
        """Return the number of steps whose data are gathered at once."""
        example = self.data.x[:1]
        one = example.numel() * example.element_size() * clients * self.batch
        return max(1, _BYTES.get(example.device.type, 2**26) // max(1, one))

    def gather(self, slots: Tensor, split: Split) -> tuple[Tensor, Tensor]:
        """Gather inputs and labels at slots of any shape."""
        x, slots = self.data.x, slots.to(self.data.x.device)
        rows = split.row[slots]
        if x.device.type != "cpu":
            return x[rows], split.y[slots]
        # `index_select` copies whole examples, and takes a third of the time of
        # indexing.
        flat = x.index_select(0, rows.reshape(-1))
        return flat.view(*rows.shape, *x.shape[1:]), split.y[slots]

    def whole(self, ids: np.ndarray, split: Split, few_shapes: bool = False) -> Batch:
        """Return all examples of each client in a split as one padded batch per client.

        The tensors are [clients, longest, …]. With `few_shapes`, the length is rounded
        up to a power of two (at most the size of the largest client), because every new
        shape must be traced.
        """
        clients = torch.from_numpy(ids).to(split.size.device)
        size, start = split.size[clients].cpu(), split.start[clients].cpu()
        longest = max(1, int(size.max()))
        if few_shapes:
            most = max(1, int(split.size.max()))
            longest = min(most, 1 << (longest - 1).bit_length())
        position = torch.arange(longest)
        inside = position < size[:, None]
        slots = torch.where(inside, start[:, None] + position, torch.tensor(0))
        weight = inside.to(self.dtype) / size.clamp(min=1)[:, None]
        if split.row.numel() == 0:
            return self.nothing(len(ids))
        x, y = self.gather(slots, split)
        return _of_all_steps(x, y, weight.to(x.device, self.dtype))

    def places(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each client's first training slot and number of slots, both [n]."""
        return self._starts[ids], self._sizes[ids]

    def first(self) -> Batch:
        """Return up to two examples as a batch of one client, for trial calls."""
        train = self.data.train
        x, y = self.gather(torch.arange(min(2, len(train.y))), train)
        zero = x.new_zeros((), dtype=torch.long)
        weight = torch.full((len(x),), 1 / len(x), dtype=self.dtype, device=x.device)
        return Batch(x, y, weight, zero, zero + 1, zero)

    def nothing(self, clients: int) -> Batch:
        """Return an empty batch per client, for phases without validation data."""
        if clients not in self._nothing:
            x, y = (
                t.new_zeros(clients, 0, *t.shape[1:])
                for t in (self.data.x, self.data.train.y)
            )
            weight = x.new_zeros(clients, 0, dtype=self.dtype)
            self._nothing[clients] = _of_all_steps(x, y, weight)
        return self._nothing[clients]


def _of_all_steps(x: Tensor, y: Tensor, weight: Tensor) -> Batch:
    """Return one batch per client, without a step number and without groups."""
    zero = x.new_zeros(len(x), dtype=torch.long)
    return Batch(x, y, weight, zero[0], zero, zero, zero[:, None][:, :0])
