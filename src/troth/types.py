"""Data types that several packages use."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

Carry = tuple[Any, ...]
"""Values that a client passes from step to step, or keeps from round to round: tensors,
or nested tuples of tensors. The engine stores them as one flat row per client."""


class Refusal(ValueError):
    """Error for bad input; its message has the value, what is allowed, and a remedy."""


class Notice(UserWarning):
    """Warning about a drawback of the user's choice; the work continues."""


class Renamed(FutureWarning):
    """Warning about an earlier name, which is still accepted."""


class Arrays(NamedTuple):
    """A data set as its source provides it, before it is split among clients."""

    x: np.ndarray  # [m, ...] uint8 or float32; images are [m, channels, height, width]
    y: np.ndarray  # [m] int64 labels 0 … classes-1, or [m, classes] of 0 and 1 if
    # an example may have several labels, or [m] float targets
    classes: int  # number of classes; 0 for a regression
    scale: float = 1.0  # the value of x that is scaled to 1 (255 for bytes)
    owner: np.ndarray | None = None  # [m] int64: natural owner, such as the writer
    group: np.ndarray | None = None  # [m] int64: group, such as gender, for audits
    split: np.ndarray | None = None  # [m] int8: TRAIN, VALID or TEST, as published
    names: tuple[str, ...] = ()  # names of the features, if the source has any
    labels: tuple[str, ...] = ()  # names of the classes, if the source has any
    owners: tuple[str, ...] = ()  # names of the owners 0, 1, …, if the source has any


TRAIN, VALID, TEST = 0, 1, 2
CONFLICTING = "conflicting"  # name of the test set of conflicting examples


class Shards(NamedTuple):
    """The rows of the data set on which each client trains, validates and tests."""

    train: list[np.ndarray]
    valid: list[np.ndarray]
    test: list[np.ndarray]
    # further test sets, by name
    tests: Mapping[str, list[np.ndarray]] = MappingProxyType({})


class Split(NamedTuple):
    """The training, validation or test examples of all clients, concatenated.

    The examples of client k have the indices start[k] … start[k] + size[k] − 1. These
    indices are called slots.
    """

    row: Tensor  # [slots] int64: row of the example in `Data.x`
    y: Tensor  # [slots]: label of the example at this client, possibly poisoned;
    # or [slots, classes]: several labels, or soft labels (see `data.labels`)
    start: Tensor  # [n] int64: first slot of each client
    size: Tensor  # [n] int64: number of slots of each client


class Data(NamedTuple):
    """All data of the clients, on the device; bytes become floats only when used."""

    x: Tensor  # [rows, ...]
    train: Split
    valid: Split
    test: Split
    tests: Mapping[str, Split] = MappingProxyType({})  # further test sets, by name
    group: Tensor = torch.zeros(0, dtype=torch.long)  # [rows]; [0] without groups


class Exact(NamedTuple):
    """Result of a corruption whose inputs are stored without rounding.

    A corruption changes training data of malicious clients. If it returns a plain tuple
    `x, y` for uint8 data, its inputs are rounded. If it returns an `Exact`, the inputs
    of all clients are stored as floats. The soft labels of an example may then have a
    sum other than 1, which multiplies its loss.
    """

    x: Tensor
    y: Tensor


class Statistics(NamedTuple):
    """Preparation of inputs: `fill` replaces NaN, then (x − mean)/std, per feature.

    Each array has either the shape of one example, which is used for all clients, or
    [n, ...], one row per client.
    """

    fill: np.ndarray  # float64, in the units of the data
    mean: np.ndarray  # float64; 0 for a feature that is not centered
    std: np.ndarray  # float64, positive; 1 for a feature that is not scaled
    constant: np.ndarray  # bool: whether all values of the feature are equal


class Batch(NamedTuple):
    """The batch of one client in one step; short batches are padded with weight 0."""

    x: Tensor  # [b, ...] in the dtype of the model
    y: Tensor  # [b], or [b, classes]: several labels, or soft labels
    weight: Tensor  # [b] sums to 1; all 0 if the client has no example
    t: Tensor  # [] number of the step in the round, from 0
    per_epoch: Tensor  # [] number of steps in an epoch of the client
    key: Tensor = torch.zeros((), dtype=torch.long)  # [] key of the client and round
    group: Tensor = torch.zeros(0, dtype=torch.long)  # [b] 0 … `Groups.number` − 1, or
    # [0] if the phase does not sample `by_group`

    def at(self, k: int) -> "Batch":
        """Return the batch of step k from the batches of several steps.

        These have a further axis in front, except for `per_epoch` and `key`.
        """
        x, y, weight, t, each, key, group = self
        return Batch(x[k], y[k], weight[k], t[k], each, key, group[k])


class Groups(NamedTuple):
    """The groups of the training examples, such as aligned and conflicting ones."""

    number: int  # number of groups; 0 if the data have no groups
    held: np.ndarray  # [n] number of groups among the examples of each client


Augment = Callable[[Batch], Batch]
"""A random change of a client's batch; the random numbers depend on the batch's key.
"""

Aim = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""The goal of a corruption, as a function of clean inputs [m, …] and their labels. It
returns the inputs that the attacker presents to the model, [m, …], and the label that
the attacker desires for each, [m]. Examples with the desired label −1 do not count. The
result for an example must not depend on other examples."""


def _no_gradients(*arguments: Any) -> Any:
    raise Refusal(
        "this task has no gradients of its outputs, none in its inputs and no second "
        "derivatives; build it by `networks.task`"
    )


class Task(NamedTuple):
    """The loss of one client and its derivatives, as functions of d parameters.

    The last `tail` of the d entries are running statistics of batch normalization,
    which have no gradient. For these, `grad` returns the number that every step
    subtracts, whatever the learning rate.
    """

    d: int
    classes: int  # number of classes; 0 for a regression
    loss: Callable[[Tensor, Batch], Tensor]  # parameters, batch → loss
    grad: Callable[[Tensor, Batch], Tensor]  # parameters, batch → gradient
    predict: Callable[[Tensor, Tensor], Tensor]  # parameters, x → outputs
    tail: int = 0
    slope: Callable[..., Tensor] = _no_gradients
    # parameters, x, function (outputs → number) → gradient of the number
    climb: Callable[..., tuple[Tensor, Tensor, Tensor]] = _no_gradients
    # parameters, x, y, still → outputs, loss of every example [b], and the gradient
    # of the losses in x [b, …], which is not computed if `still`
    bend: Callable[[Tensor, Batch, Tensor], Tensor] = _no_gradients
    # parameters, batch, direction → Hessian of the training loss times the direction


class Broadcast(NamedTuple):
    """The server's message to the clients of a round."""

    w: Tensor  # [d] the shared model
    extra: Tensor  # [e] values of the solver, such as c of SCAFFOLD; often e = 0
    scale: Tensor  # [] factor of every learning rate in this round
    key: Tensor = torch.zeros((), dtype=torch.long)  # [] key that all clients share


class Reply(NamedTuple):
    """The message of one client to the server."""

    update: Tensor  # [d] change of w that the client proposes
    extra: Tensor  # [e] further values that a solver sends


class Messages(NamedTuple):
    """All values that a server receives from clients; malicious ones may be false."""

    update: Tensor  # [n, d]
    extra: Tensor  # [n, e] aggregated separately, by the same rule
    loss: Tensor  # [n] loss of w on training data; NaN unless a rule uses it
    size: Tensor  # [n] numbers of examples
    client: Tensor  # [n] ids of the clients


class Optimizer(NamedTuple):
    """An optimizer: its state (moments) and its step along a gradient."""

    init: Callable[[Tensor], Carry]  # v → initial moments (none for plain sgd)
    step: Callable[[Tensor, Tensor, Carry, Tensor], tuple[Tensor, Carry]]
    # v, gradient, moments, lr → new v, new moments
    limit: float  # steps on curvature L are stable if lr·L < limit


class Descent(NamedTuple):
    """An optimizer with its learning rate, as solvers and personalizers use it."""

    lr: float
    limit: float  # steps on curvature L are stable if lr·L < limit
    init: Callable[[Tensor], Carry]
    step: Callable[[Tensor, Tensor, Carry, Tensor], tuple[Tensor, Carry]]
    # v, gradient, moments, factor on lr → new v, new moments


class Regularizer(NamedTuple):
    """A distance between a personal model v and a shared model w, with its gradient."""

    value: Callable[[Tensor, Tensor, Batch], Tensor]  # v, w, batch → distance
    grad: Callable[[Tensor, Tensor, Batch], Tensor]  # v, w, batch → gradient in v
    curvature: float = 0.0  # largest curvature in v; 0 if unknown or unbounded
    reach: float = math.nan  # largest gradient norm; NaN if not a function of v − w


class Budget(NamedTuple):
    """Number of steps of a client in a phase: `steps` plus the steps of `epochs`."""

    steps: int = 0
    epochs: int = 0
    examples: bool = False  # how long an epoch is: see `Feed.steps`

    def in_steps(self, per_epoch: Tensor) -> Tensor:
        """Return the total number of steps, given the number of steps per epoch."""
        return self.steps + self.epochs * per_epoch

    def lasts(self, batch: Batch) -> Tensor:
        """Return whether the step of this batch is within the budget."""
        return batch.t < self.in_steps(batch.per_epoch)


class Phase(NamedTuple):
    """Work of one client, one step per batch; the engine runs it for many clients."""

    begin: Callable[[Broadcast, Carry], Carry]  # state → carry
    step: Callable[[Broadcast, Carry, Batch, Batch], Carry]
    # broadcast, carry, training batch, validation batch → carry
    end: Callable[[Broadcast, Carry, Carry, Batch], tuple[Reply, Carry]]
    budgets: tuple[Budget, ...]  # the longest one is the length of the phase
    valid: bool = False  # whether it uses validation data
    by_group: bool = False  # whether batches sample each group equally often
    prepare: Callable[[Broadcast, Batch], Batch] | None = None
    # broadcast, validation batch → validation batch; called before the first step


class Solver(NamedTuple):
    """How a client trains the shared model; carry[0] is its copy of the model."""

    init: Callable[[Tensor], Carry]  # first shared model → state between rounds
    begin: Callable[[Broadcast, Carry], Carry]
    step: Callable[[Broadcast, Carry, Batch], Carry]
    end: Callable[[Broadcast, Carry, Carry], tuple[Reply, Carry]]
    extra: int = 0  # length of the vector that is sent together with w


class Anchor(NamedTuple):
    """The models that the step of a personalizer may use."""

    w: Tensor  # [d] the shared model of this round, fixed
    moving: Tensor  # [d] the solver's copy of w after the solver's current step
    before: Tensor  # [d] the solver's copy of w before this step


Settle = Callable[[Carry, Batch], Carry]
"""State and validation batch → state from which the personal model is computed. It
makes a choice by validation data, each time that the model is used. The new state is
not stored, so training cannot depend on the choice."""


class Personal(NamedTuple):
    """A personalizer: the method by which a client gets its own model.

    It can be combined with any solver.
    """

    init: Callable[[Tensor], Carry]  # first shared model → state
    step: Callable[[Carry, Anchor, Batch, Batch, Tensor], Carry]
    # state, anchor, training batch, validation batch, factor on lr → state
    model: Callable[[Tensor, Carry], Tensor]  # w, state → parameters
    finish: Phase | None = None  # training after the last round
    valid: bool = False  # whether steps use validation data
    idle: bool = False  # whether steps do nothing
    settle: Settle | None = None
    columns: tuple[str, ...] = ()  # further columns of clients.csv
    tell: Callable[[Carry], Tensor] = lambda state: torch.zeros(0)  # state → columns


class Client(NamedTuple):
    """One client, as functions of flat vectors; the engine vectorizes them."""

    init: Callable[[Tensor], Carry]
    local: Phase
    finish: Phase | None
    model: Callable[[Tensor, Carry], Tensor]
    extra: int = 0  # length of the further values that the client sends
    shares_personal: bool = False  # whether the reply reveals the personal model
    settle: Settle | None = None
    columns: tuple[str, ...] = ()  # further columns of clients.csv
    tell: Callable[[Carry], Tensor] = lambda state: torch.zeros(0)  # state → columns
    idle: bool = False  # whether rounds do not change the personal model


class Record(NamedTuple):
    """The results of one finished round."""

    round: int
    cohort: np.ndarray  # ids of the clients that the server selected
    absent: np.ndarray  # ids of the clients in the cohort that did not reply
    cut: np.ndarray  # ids of the clients that a deadline stopped early
    broadcast: Broadcast  # the server's message of the next round
    messages: Messages  # the messages that reached the aggregator
    dropped: Mapping[str, list[int]]  # name of a filter → ids of the clients removed
    verdicts: Mapping[str, list[int]]  # "clipped", "chosen" or "downweighted" → ids
    moved: float  # ‖w⁺ − w‖
    cosine: float  # of the mean malicious and the mean benign update, or NaN
    why: str  # reason why w was not changed; "" if it was changed

    @property
    def stayed(self) -> bool:
        """Whether w stayed unchanged."""
        return bool(self.why)


class Tracked(NamedTuple):
    """A run, or a grid of runs, that a tracker shows."""

    id: str  # the same whenever this folder is tracked
    name: str  # name of the folder; for a run of a grid: grid's folder/run's label
    path: Path  # folder of the run or grid
    root: Path  # folder of the run, or of the grid that contains it
    grid: str  # name of the grid that contains the run, or ""
    settings: Mapping[str, str]  # settings by path, such as "train.lr", as text
    is_grid: bool


class Tracker(Protocol):
    """An open connection to a tracker, which receives values and files of one run.

    If it has an attribute `where`, a folder or an address, `troth track` prints it.
    """

    def log(self, rounds: Mapping[int, Mapping[str, float]], /) -> None:
        """Record named values by the number of the round; numbers are ascending."""

    def save(self, files: Sequence[Path], /) -> None:
        """Store files of the run."""

    def close(self, finished: bool, /) -> None:
        """Close the connection; `finished` is false if the run was stopped."""


Options = Mapping[str, Any]
