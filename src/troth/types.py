"""Data types that several folders share; no logic."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

Carry = tuple[Any, ...]
"""State that a client passes from step to step, or keeps from round to round: tensors,
or nested tuples of tensors. The engine stores it as one flat row per client."""


class Refusal(ValueError):
    """Error for bad input: a sentence with the value, what is allowed and a remedy."""


class Notice(UserWarning):
    """Warning about a drawback of the user's choice; the work continues."""


class Arrays(NamedTuple):
    """A data set as its source provides it, before it is split among clients."""

    x: np.ndarray  # [m, ...] uint8 or float32; images are [m, channels, height, width]
    y: np.ndarray  # [m] int64 labels 0 … classes-1, or [m, classes] of 0 and 1 if
    # an example may have several labels, or [m] float targets
    classes: int  # 0: regression
    scale: float = 1.0  # the value of x that is scaled to 1 (255 for bytes)
    owner: np.ndarray | None = None  # [m] int64: natural owner, such as the writer
    group: np.ndarray | None = None  # [m] int64: group by which an audit may split
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
    tests: Mapping[str, list[np.ndarray]] = MappingProxyType({})  # name → further tests


class Split(NamedTuple):
    """One part (training, validation or test) of all clients' examples, concatenated.

    The examples of client k are at the places start[k] … start[k] + size[k] − 1. Such a
    place is called a slot.
    """

    row: Tensor  # [slots] int64: the slot's row in `Data.x`
    y: Tensor  # [slots]: its label as this client holds it, possibly poisoned;
    # or [slots, classes]: several labels, or soft labels (see `data.labels`)
    start: Tensor  # [n] int64: first slot of each client
    size: Tensor  # [n] int64: number of slots of each client


class Data(NamedTuple):
    """All data of the clients, on the device; bytes are converted only when used."""

    x: Tensor  # [rows, ...]
    train: Split
    valid: Split
    test: Split
    tests: Mapping[str, Split] = MappingProxyType({})  # further test sets, by name
    group: Tensor = torch.zeros(0, dtype=torch.long)  # [rows]; [0] without groups


class Exact(NamedTuple):
    """Result of a corruption whose inputs are stored without rounding.

    If a corruption returns a plain tuple `x, y` for uint8 data, its inputs are rounded.
    If it returns an `Exact`, the inputs of all clients are stored as floats. The soft
    labels of an example may then sum to another number than 1, which multiplies its
    loss by this number.
    """

    x: Tensor
    y: Tensor


class Statistics(NamedTuple):
    """Preparation of the inputs: NaN → fill, then (x − mean)/std, feature by feature.

    Each array has the shape [...] of one example, for all clients, or [n, ...], one row
    per client.
    """

    fill: np.ndarray  # float64, in the units of the data
    mean: np.ndarray  # float64; 0 if nothing is subtracted
    std: np.ndarray  # float64, positive; 1 if nothing is divided
    constant: np.ndarray  # bool: whether the feature has no spread


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
    held: np.ndarray  # [n] number of groups of which each client has examples


Augment = Callable[[Batch], Batch]
"""A random change of a client's batch; the batch's key determines the random numbers.
"""

Aim = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""The goal of a corruption, as a function of clean inputs [m, …] and their labels. It
returns the inputs that the attacker presents to the model, [m, …], and the desired
label of each, [m]. If that label is −1, the example does not count. The result for an
example depends on nothing else."""


def _no_gradients(*arguments: Any) -> Any:
    raise Refusal(
        "this task has no gradients of its outputs, none in its inputs and no second "
        "derivatives; build it by `networks.task`"
    )


class Task(NamedTuple):
    """What one client optimizes, as functions of a flat vector of d entries.

    The last `tail` of the d entries are running statistics of batch normalization,
    which have no gradient. There, `grad` returns the number that a step with learning
    rate 1 subtracts.
    """

    d: int
    classes: int  # 0: regression
    loss: Callable[[Tensor, Batch], Tensor]  # parameters, batch → loss
    grad: Callable[[Tensor, Batch], Tensor]  # parameters, batch → gradient
    predict: Callable[[Tensor, Tensor], Tensor]  # parameters, x → outputs
    tail: int = 0
    slope: Callable[..., Tensor] = _no_gradients
    # parameters, x, function of outputs to a number → its gradient in the parameters
    climb: Callable[..., tuple[Tensor, Tensor, Tensor]] = _no_gradients
    # parameters, x, y, still → outputs, loss of every example [b], its gradient in x
    # [b, …] (not computed if `still`)
    bend: Callable[[Tensor, Batch, Tensor], Tensor] = _no_gradients
    # parameters, batch, direction → Hessian of the training loss times the direction


class Broadcast(NamedTuple):
    """The server's message to the clients of a round."""

    w: Tensor  # [d] the shared model
    extra: Tensor  # [e] zero-width unless a solver needs it (SCAFFOLD's c)
    scale: Tensor  # [] factor on every learning rate in this round
    key: Tensor = torch.zeros((), dtype=torch.long)  # [] key that all clients share


class Reply(NamedTuple):
    """The message of one client to the server."""

    update: Tensor  # [d] change of w that the client proposes
    extra: Tensor  # [e] further values that a solver sends


class Messages(NamedTuple):
    """All that a server receives of its clients; an adversary may falsify any of it."""

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
    """A distance of a personal model v from a shared model w, and its gradient in v."""

    value: Callable[[Tensor, Tensor, Batch], Tensor]  # v, w, batch → distance
    grad: Callable[[Tensor, Tensor, Batch], Tensor]  # v, w, batch → gradient in v
    curvature: float = 0.0  # largest curvature in v; 0 if unknown or unbounded
    reach: float = math.nan  # largest gradient norm; NaN if not a function of v − w


class Budget(NamedTuple):
    """The number of steps of a client in a phase: `steps` plus those of `epochs`."""

    steps: int = 0
    epochs: int = 0
    examples: bool = False  # whether epochs count examples, not batches: `Feed.steps`

    def in_steps(self, per_epoch: Tensor) -> Tensor:
        """Return the total number of steps, given the number of steps per epoch."""
        return self.steps + self.epochs * per_epoch

    def lasts(self, batch: Batch) -> Tensor:
        """Return whether the phase still continues at the step of this batch."""
        return batch.t < self.in_steps(batch.per_epoch)


class Phase(NamedTuple):
    """Work of one client, one step per batch; the engine loops and vectorizes it."""

    begin: Callable[[Broadcast, Carry], Carry]  # state → carry
    step: Callable[[Broadcast, Carry, Batch, Batch], Carry]
    # broadcast, carry, training batch, validation batch → carry
    end: Callable[[Broadcast, Carry, Carry, Batch], tuple[Reply, Carry]]
    budgets: tuple[Budget, ...]  # the phase lasts as long as the longest budget
    valid: bool = False  # whether it uses validation data
    by_group: bool = False  # whether batches sample each group equally often
    prepare: Callable[[Broadcast, Batch], Batch] | None = None
    # changes the validation batch, once before the first step


class Solver(NamedTuple):
    """What a client does to improve the shared model; carry[0] is its copy of w."""

    init: Callable[[Tensor], Carry]  # w0 → state that it keeps between rounds
    begin: Callable[[Broadcast, Carry], Carry]
    step: Callable[[Broadcast, Carry, Batch], Carry]
    end: Callable[[Broadcast, Carry, Carry], tuple[Reply, Carry]]
    extra: int = 0  # length of the vector that is sent together with w


class Anchor(NamedTuple):
    """The models that the step of a personalizer may use."""

    w: Tensor  # [d] the shared model of this round, fixed
    moving: Tensor  # [d] the client's local copy of w, after this step of the solver
    before: Tensor  # [d] the same copy before this step


Settle = Callable[[Carry, Batch], Carry]
"""State and validation batch → state from which the personal model is computed. Each
use of the model calls it anew, to choose by validation data. The new state is not
stored, so that training cannot depend on it."""


class Personal(NamedTuple):
    """A personalizer: the method by which a client gets its own model.

    It can be combined with any solver.
    """

    init: Callable[[Tensor], Carry]  # the *initial* shared model → state
    step: Callable[[Carry, Anchor, Batch, Batch, Tensor], Carry]
    # state, anchor, training batch, validation batch, factor on lr → state
    model: Callable[[Tensor, Carry], Tensor]  # w, state → parameters
    finish: Phase | None = None  # work after the last round, on the client's state
    valid: bool = False
    idle: bool = False  # whether its step does nothing
    settle: Settle | None = None
    columns: tuple[str, ...] = ()  # further columns of clients.csv
    tell: Callable[[Carry], Tensor] = lambda state: torch.zeros(0)  # state → columns


class Client(NamedTuple):
    """One client, as functions of flat vectors; the engine vectorizes them."""

    init: Callable[[Tensor], Carry]
    local: Phase
    finish: Phase | None
    model: Callable[[Tensor, Carry], Tensor]
    extra: int = 0
    shares_personal: bool = False  # whether its reply reveals its personal model
    settle: Settle | None = None
    columns: tuple[str, ...] = ()  # further columns of clients.csv
    tell: Callable[[Carry], Tensor] = lambda state: torch.zeros(0)  # state → columns
    idle: bool = False  # whether rounds leave its personal model unchanged


class Record(NamedTuple):
    """The results of one finished round."""

    round: int
    cohort: np.ndarray  # ids of the cohort
    absent: np.ndarray  # ids in the cohort that did not reply
    cut: np.ndarray  # ids whose work the deadline cut short
    broadcast: Broadcast  # the server's message of the next round
    messages: Messages  # the messages that reached the aggregator
    dropped: Mapping[str, list[int]]  # filter → ids it removed
    verdicts: Mapping[str, list[int]]  # clipped, chosen, downweighted → ids
    moved: float  # ‖w⁺ − w‖
    cosine: float  # between mean malicious and mean benign update; or NaN
    why: str  # reason why w stayed unchanged; "" if it changed

    @property
    def stayed(self) -> bool:
        """Whether w stayed unchanged."""
        return bool(self.why)


class Tracked(NamedTuple):
    """A run, or a grid of runs, that a tracker shows."""

    id: str  # equal each time that this folder is tracked
    name: str  # its folder; a run of a grid: folder of the grid/label
    path: Path  # folder of the run or grid
    root: Path  # folder of the run, or of the grid that it belongs to
    grid: str  # name of the grid that the run belongs to; "" if there is none
    settings: Mapping[str, str]  # settings by path, such as "train.lr", as text
    is_grid: bool


class Tracker(Protocol):
    """What a tracker returns for a run: it receives values and files of that run."""

    def log(self, rounds: Mapping[int, Mapping[str, float]], /) -> None:
        """Record values by name, for numbers of finished rounds in ascending order."""

    def save(self, files: Sequence[Path], /) -> None:
        """Keep files with the run."""

    def close(self, finished: bool, /) -> None:
        """End the record of the run, which is finished or was stopped."""


Options = Mapping[str, Any]
