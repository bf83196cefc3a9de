"""Values that cross borders between the folders; no logic."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Carry = tuple[Any, ...]
"""What a client carries from step to step, or keeps from round to round: tensors, or
tuples of such. The engine stores it as one flat row a client."""


class Refusal(ValueError):
    """Bad input: one sentence that names the value, what is allowed and the remedy."""


class Arrays(NamedTuple):
    """A data set as it comes from its source, before it is split among clients."""

    x: np.ndarray  # [m, ...] uint8 or float32; images are [m, channels, height, width]
    y: np.ndarray  # [m] int64 labels 0 … classes-1, or [m, classes] of 0 and 1 where
    # an example may have several, or [m] float32 targets
    classes: int  # 0: regression
    scale: float = 1.0  # the value of x that stands for 1 (255 for bytes)
    owner: np.ndarray | None = None  # [m] int64: whose example it is by nature
    group: np.ndarray | None = None  # [m] int64: what an audit may split by
    split: np.ndarray | None = None  # [m] int8: TRAIN, VALID or TEST, as published
    names: tuple[str, ...] = ()  # of the features, where the source has them
    labels: tuple[str, ...] = ()  # of the classes, where the source has them


TRAIN, VALID, TEST = 0, 1, 2
CONFLICTING = "conflicting"  # name of a test set: examples that go against a shortcut


class Shards(NamedTuple):
    """Examples that each client trains, validates and tests on: one list per client."""

    train: list[np.ndarray]
    valid: list[np.ndarray]
    test: list[np.ndarray]
    tests: Mapping[str, list[np.ndarray]] = MappingProxyType({})  # further, by name


class Split(NamedTuple):
    """One split of every client, ragged: client k has slots start[k] … + size[k]."""

    row: Tensor  # [slots] int64: the slot's row in `Data.x`
    y: Tensor  # [slots]: its label as this client holds it (poisoned ones included);
    # [slots, classes] several, or in training shares of the classes (`labels`)
    start: Tensor  # [n] int64
    size: Tensor  # [n] int64


class Data(NamedTuple):
    """All data of the clients, on the device; bytes stay bytes until used."""

    x: Tensor  # [rows, ...]
    train: Split
    valid: Split
    test: Split
    tests: Mapping[str, Split] = MappingProxyType({})  # further ones, by name
    group: Tensor = torch.zeros(0, dtype=torch.long)  # [rows], or none where unmarked


class Exact(NamedTuple):
    """Result of a corruption that is stored unrounded.

    Inputs of plain `x, y` are rounded where the data are bytes; with these, all inputs
    are stored as fractions. Shares of an example may sum to another number than 1: then
    its loss counts that many times.
    """

    x: Tensor
    y: Tensor


class Statistics(NamedTuple):
    """How inputs are prepared: NaN → fill, then (x − mean)/std, feature by feature.

    Each is [...], like one example, for all clients, or [n, ...], one row per client.
    """

    fill: np.ndarray  # float64, in the units of the data
    mean: np.ndarray  # float64; 0 where nothing is subtracted
    std: np.ndarray  # float64, positive; 1 where nothing is divided
    constant: np.ndarray  # bool: features that had no spread to divide by


class Batch(NamedTuple):
    """What one client sees in one step; short batches are padded with weight 0."""

    x: Tensor  # [b, ...] in the precision of the model
    y: Tensor  # [b], or [b, classes]: several labels, or shares (`labels`)
    weight: Tensor  # [b] sums to 1 (all 0 where the client has no example)
    t: Tensor  # [] which step of the round
    per_epoch: Tensor  # [] how many steps of the client make an epoch
    key: Tensor = torch.zeros((), dtype=torch.long)  # [] of its draws in this round
    group: Tensor = torch.zeros(0, dtype=torch.long)  # [b] 0 … `Groups.number` − 1; [0]
    # where the phase does not draw `by_group`


class Groups(NamedTuple):
    """The groups of the training examples, such as aligned and conflicting ones."""

    number: int  # how many there are; 0: the data do not say
    held: np.ndarray  # [n] how many of them each client has


Augment = Callable[[Batch], Batch]
"""A random change of a client's batch, drawn from its key."""

Aim = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Clean inputs [m, …] and their labels → what an attacker shows instead, [m, …], and
the label that it wants said of each, [m]; −1: the example does not count. Each example
by itself, and always the same."""


def _no_gradients(*arguments: Any) -> Any:
    raise Refusal(
        "this task has no gradients of its outputs and no gradients in its inputs; "
        "build it by `networks.task`"
    )


class Task(NamedTuple):
    """What one client optimizes: plain functions of a flat vector.

    The last `tail` of its d numbers are running statistics of batch normalization,
    which no gradient moves: there `grad` holds what a step of length 1 subtracts.
    """

    d: int
    classes: int  # 0: regression
    loss: Callable[[Tensor, Batch], Tensor]
    grad: Callable[[Tensor, Batch], Tensor]
    predict: Callable[[Tensor, Tensor], Tensor]  # parameters, x → outputs
    tail: int = 0
    slope: Callable[..., Tensor] = _no_gradients
    # parameters, x, a number made of outputs → its gradient in the parameters
    climb: Callable[..., tuple[Tensor, Tensor, Tensor]] = _no_gradients
    # parameters, x, y, still → outputs, every example's loss [b], its gradient in x
    # [b, …] unless `still`


class Broadcast(NamedTuple):
    """What the server sends."""

    w: Tensor  # [d] the shared model
    extra: Tensor  # [e] zero-width unless a solver needs it (SCAFFOLD's c)
    scale: Tensor  # [] what the schedule makes of every learning rate this round
    key: Tensor = torch.zeros((), dtype=torch.long)  # [] of what all clients draw alike


class Reply(NamedTuple):
    """What one client sends back."""

    update: Tensor  # [d] always a displacement: what it would add to w
    extra: Tensor  # [e]


class Messages(NamedTuple):
    """All that a server sees of its clients; an adversary may falsify any of it."""

    update: Tensor  # [n, d]
    extra: Tensor  # [n, e] aggregated by the same rule, apart
    loss: Tensor  # [n] of w on the client's training data; NaN unless a rule asks
    size: Tensor  # [n] examples
    client: Tensor  # [n] ids


class Optimizer(NamedTuple):
    """How a vector follows a gradient."""

    init: Callable[[Tensor], Carry]  # v → its moments (none for plain sgd)
    step: Callable[[Tensor, Tensor, Carry, Tensor], tuple[Tensor, Carry]]  # v g m lr
    limit: float  # explicit steps on curvature L are stable while lr·L < limit


class Descent(NamedTuple):
    """An optimizer with its learning rate, as solvers and personalizers use it."""

    lr: float
    limit: float  # lr times curvature must stay below
    init: Callable[[Tensor], Carry]
    step: Callable[[Tensor, Tensor, Carry, Tensor], tuple[Tensor, Carry]]  # v g m scale


class Regularizer(NamedTuple):
    """Distance of a personal model v from a shared one w, and its gradient in v."""

    value: Callable[[Tensor, Tensor, Batch], Tensor]
    grad: Callable[[Tensor, Tensor, Batch], Tensor]
    curvature: float = 0.0  # of it in v, at most; 0: not known, or not bounded
    reach: float = math.nan  # longest gradient; nan: no function of v − w alone


class Budget(NamedTuple):
    """How long a client works in a phase: steps plus epochs."""

    steps: int = 0
    epochs: int = 0

    def in_steps(self, per_epoch: Tensor) -> Tensor:
        """Return the number of steps, given the steps of an epoch."""
        return self.steps + self.epochs * per_epoch

    def lasts(self, batch: Batch) -> Tensor:
        """Return whether the phase still continues at this step."""
        return batch.t < self.in_steps(batch.per_epoch)


class Phase(NamedTuple):
    """Work of one client, one step per batch; the engine loops and lifts."""

    begin: Callable[[Broadcast, Carry], Carry]  # state → carry
    step: Callable[[Broadcast, Carry, Batch, Batch], Carry]  # …, batch, validation
    end: Callable[[Broadcast, Carry, Carry, Batch], tuple[Reply, Carry]]
    budgets: tuple[Budget, ...]  # the engine runs the longest
    valid: bool = False  # whether it looks at validation data
    by_group: bool = False  # each of a client's groups is drawn equally often
    prepare: Callable[[Broadcast, Batch], Batch] | None = None  # of validation, once


class Solver(NamedTuple):
    """What one client does for the shared model; carry[0] is its moving copy of w."""

    init: Callable[[Tensor], Carry]  # w0 → what it keeps between rounds
    begin: Callable[[Broadcast, Carry], Carry]
    step: Callable[[Broadcast, Carry, Batch], Carry]
    end: Callable[[Broadcast, Carry, Carry], tuple[Reply, Carry]]
    extra: int = 0  # width of what is sent with w


class Anchor(NamedTuple):
    """What a personal step may use."""

    w: Tensor  # [d] the shared model of this round, fixed
    moving: Tensor  # [d] the client's own copy of it, this step of the solver done
    before: Tensor  # [d] the same copy as it was before this step


Settle = Callable[[Carry, Batch], Carry]
"""State and validation data → the state as it is read: for what a client decides only
when its model is asked for. It is not kept, so that training cannot depend on it."""


class Personal(NamedTuple):
    """How a client gets its own model, beside any solver."""

    init: Callable[[Tensor], Carry]  # from the *first* shared model
    step: Callable[[Carry, Anchor, Batch, Batch, Tensor], Carry]  # …, valid, scale
    model: Callable[[Tensor, Carry], Tensor]  # w, state → parameters
    finish: Phase | None = None  # of its own state
    valid: bool = False
    idle: bool = False  # its step does nothing
    settle: Settle | None = None
    columns: tuple[str, ...] = ()  # further columns of clients.csv
    tell: Callable[[Carry], Tensor] = lambda state: torch.zeros(0)  # state → columns


class Client(NamedTuple):
    """One client, flat vectors, no client axis; the engine lifts it over the rows."""

    init: Callable[[Tensor], Carry]
    local: Phase
    finish: Phase | None
    model: Callable[[Tensor, Carry], Tensor]
    extra: int = 0
    shares_personal: bool = False  # its reply reveals its personal model
    settle: Settle | None = None
    columns: tuple[str, ...] = ()  # further columns of clients.csv
    tell: Callable[[Carry], Tensor] = lambda state: torch.zeros(0)  # state → columns
    idle: bool = False  # nothing that it does in rounds reaches its own model


class Record(NamedTuple):
    """One finished round."""

    round: int
    cohort: np.ndarray  # ids asked
    absent: np.ndarray  # ids asked of whom nothing came
    cut: np.ndarray  # ids that the deadline stopped with a part of the work done
    broadcast: Broadcast  # what the next round starts from
    messages: Messages  # what reached the aggregator
    dropped: Mapping[str, list[int]]  # filter → ids it removed
    verdicts: Mapping[str, list[int]]  # clipped, chosen, downweighted → ids
    moved: float  # ‖w⁺ − w‖
    cosine: float  # of the mean malicious and mean benign update; nan: one has none
    why: str  # why w stayed; empty: it did not

    @property
    def stayed(self) -> bool:
        """Whether w stayed as it was."""
        return bool(self.why)


Options = Mapping[str, Any]
