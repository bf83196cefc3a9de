"""The sections of an experiment as classes, which raise Refusal for invalid values.

`troth.config.reader` makes them from tables, and checks the types of their values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from troth.config.checks import alone, idle, in_range
from troth.config.deployment import Deployment
from troth.types import Refusal


def rounded_up(share: float, n: int) -> int:
    """Return a share of n clients, rounded up, without floating-point errors."""
    return max(math.ceil(share * n - 1e-9), 0)


@dataclass(frozen=True)
class Part:
    """A member of a kind (such as the aggregator `median`), with its options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionPart(Part):
    """How examples are divided among clients, and into training and test.

    Attributes:
        split: Shares of training, validation and test data; "given": the split that the
            data contain.
        valid: Share of the training data that is used for validation, with split =
            "given".
        min_examples: Fewest examples of a client; clients with fewer are left out.
        split_by: Unit that is never divided between training, validation and test: an
            example, or all examples of an owner.
        leakage: Treatment of test examples that also occur in training: allow, record
            or refuse.
        conflicting: Additional test set of conflicting examples (group 1): "none",
            "copied" from the test data, or "held_out" of all data.
        correlation: With "held_out": least share of aligned examples (group 0) in the
            data that remain.
    """

    split: list[float] | Literal["given"] = field(
        default_factory=lambda: [0.72, 0.08, 0.2]
    )
    valid: float = 0.0
    min_examples: int = 0
    split_by: Literal["example", "owner"] = "example"
    leakage: Literal["allow", "record", "refuse"] = "record"
    conflicting: Literal["none", "copied", "held_out"] = "none"
    correlation: float = 0.98

    def __post_init__(self) -> None:
        in_range(self, "partition", "[0, inf)", "min_examples")
        in_range(self, "partition", "[0, 1)", "valid")
        in_range(self, "partition", "(0, 1]", "correlation")
        if self.split == "given":
            return
        shares = self.split if len(self.split) == 3 else [-1.0]
        whole = math.isclose(sum(shares), 1, abs_tol=1e-6)
        if not (whole and min(shares) >= 0 and shares[0] > 0 and shares[2] > 0):
            raise Refusal(
                f"partition.split = {self.split!r} is not a division; give three "
                "shares that sum to 1, of train, valid (may be 0) and test, such as "
                "[0.72, 0.08, 0.2], or 'given'"
            )
        if self.valid:
            raise Refusal(
                f"partition.valid = {self.valid} goes only with partition.split = "
                f"'given'; with shares the second is validation, now {shares[1]}"
            )


@dataclass(frozen=True)
class ModelPart(Part):
    """The model that is trained.

    Attributes:
        normalize: Scaling of inputs: "unit" divides by the data's scale, "pixel"
            standardizes each feature, "fixed" divides by the scale and then computes
            (x − mean)/std, and "none" changes nothing.
        mean: With normalize = "fixed": number to subtract, or one number per channel.
        std: With normalize = "fixed": number to divide by, or one number per channel.
        weights: File of initial weights: .safetensors, .pt or .pth; "": random weights.
        weights_skip: Name patterns of parameters that are not read from `weights`.
        freeze: Name patterns of parameters that are neither trained nor sent.
    """

    normalize: Literal["unit", "pixel", "fixed", "none"] = "unit"
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    weights: str = ""
    weights_skip: list[str] = field(default_factory=list)
    freeze: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        fixed = self.normalize == "fixed"
        if fixed != bool(self.mean) or len(self.mean) != len(self.std):
            raise Refusal(
                f"model.mean = {self.mean} and model.std = {self.std} go "
                f"with model.normalize = 'fixed' (it is '{self.normalize}'), one "
                "number each or one per channel, such as [0.1307] and [0.3081]"
            )
        if self.weights_skip and not self.weights:
            raise Refusal(
                f"model.weights_skip = {self.weights_skip} has no effect, because "
                "model.weights is not set; set model.weights, or leave this out"
            )


@dataclass(frozen=True)
class CorruptionPart(Part):
    """How malicious clients change their training data.

    Attributes:
        share: Share of a malicious client's training examples that is corrupted,
            rounded up.
        redraw: Whether the clean data are corrupted again in every round.
    """

    share: float = 1.0
    redraw: bool = False

    def __post_init__(self) -> None:
        in_range(self, "corruption", "(0, 1]", "share")


@dataclass(frozen=True)
class AttackPart(Part):
    """What malicious clients send, and how strong the attack is.

    Attributes:
        strength: Factor on the attack: with 0, malicious clients send their honest
            updates; with 1, those of the attack.
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        in_range(self, "attack", "[0, inf)", "strength")


@dataclass(frozen=True)
class PersonalizerPart(Part):
    """How a client gets its own model; keys that are not set are as in `[train]`.

    Attributes:
        lr: Learning rate of the personal model; if not set, that of `[train]`.
        steps: Training steps of the personal model in a round; not together with
            epochs. Personalizers that train after the last round take these steps then.
        epochs: Epochs of the personal model, in place of steps. If neither is set,
            training is as long as in `[train]`, or 50 epochs after the last round.
        count: Number of steps in epochs after the last round: "batches", one per batch,
            or "examples", max(⌊epochs · n / batch⌋, epochs) in all for n examples.
        optimizer: Optimizer of the personal model; if not set, that of `[train]`.
        augment: Random changes of the training inputs; if not set, those of `[train]`;
            []: none.
    """

    lr: float | None = None
    steps: int = 0
    epochs: int = 0
    count: Literal["batches", "examples"] = "batches"
    optimizer: Part | None = None
    augment: list[Part] | None = None

    def __post_init__(self) -> None:
        in_range(self, "personalizer", "[0, inf)", "lr", "steps", "epochs")
        alone("personalizer", steps=self.steps or None, epochs=self.epochs or None)
        if self.count != "batches" and not self.epochs:
            raise Refusal(
                f"personalizer.count = '{self.count}' is about personalizer.epochs, "
                "and personalizer.epochs is not set; set it, or leave count out"
            )


@dataclass(frozen=True)
class Train:
    """How the shared model is trained; by default one epoch per round.

    Attributes:
        rounds: Number of rounds.
        cohort: Number of clients sampled in a round; 0: all.
        sampling: Sampler that draws the clients of a round, without replacement.
        steps: Training steps of a client in a round; not together with epochs.
        epochs: Epochs of a client in a round; 1 if neither steps nor epochs is set.
        batch: Examples in a batch; 0: all examples of the client.
        drop_last: Whether the last, shorter batch of an epoch is left out.
        lr: Learning rate of the clients.
        optimizer: Optimizer of the clients.
        weight_decay: Multiple of the parameters that is added to every gradient.
        schedule: Schedule of the learning rate over the rounds.
        loss: Loss of one example; "auto": that of the model, or by the type of labels.
        augment: Random changes of the training inputs, applied one after another.
        statistics: Aggregation of the running statistics of batch normalization;
            "auto": by the aggregator of the updates.
        precision: Number format; "tf32" and "bfloat16" are faster on a GPU.
    """

    rounds: int = 100
    cohort: int = 0
    sampling: str = field(default="uniform", metadata={"kind": "sampler"})
    steps: int = 0
    epochs: int = 0
    batch: int = 32
    drop_last: bool = False
    lr: float = 0.1
    optimizer: Part = field(default_factory=lambda: Part("sgd"))
    weight_decay: float = 0.0
    schedule: Part = field(default_factory=lambda: Part("constant"))
    loss: Part = field(default_factory=lambda: Part("auto"))
    augment: list[Part] = field(default_factory=list)
    statistics: Literal["auto", "mean", "median"] = "auto"
    precision: Literal["float32", "tf32", "float64", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        numbers = ("cohort", "steps", "epochs", "batch", "lr", "weight_decay")
        in_range(self, "train", "[1, inf)", "rounds")
        in_range(self, "train", "[0, inf)", *numbers)
        alone("train", steps=self.steps or None, epochs=self.epochs or None)
        if not self.steps and not self.epochs:
            object.__setattr__(self, "epochs", 1)


@dataclass(frozen=True)
class Evaluate:
    """When models are evaluated, and on which clients.

    Attributes:
        every: Rounds between evaluations; 0: about twenty evaluations in the run.
        clients: Number of clients to evaluate, a fixed random sample; 0: all.
        scores: Further scores of each client, such as "f1".
        newcomers: Share of the clients, rounded up, that join after the last round.
        newcomer_rounds: Rounds that a newcomer trains; 0: those of an average client.
        newcomer_examples: Number of training examples that a newcomer uses; 0: all.
    """

    every: int = 0
    clients: int = 0
    scores: list[Part] = field(default_factory=list, metadata={"kind": "score"})
    newcomers: float = 0.0
    newcomer_rounds: int = 0
    newcomer_examples: int = 0

    def __post_init__(self) -> None:
        late = ("newcomer_rounds", "newcomer_examples")
        in_range(self, "evaluate", "[0, inf)", "every", "clients", *late)
        in_range(self, "evaluate", "[0, 1)", "newcomers")
        if not self.newcomers:
            remedy = "set evaluate.newcomers to their share of the clients, such as 0.1"
            idle(self, "evaluate", f"newcomers; {remedy}", *late)


@dataclass(frozen=True)
class Availability:
    """Which clients are present, reply, and finish in time; 0 turns a key off.

    Attributes:
        drop: Probability that a sampled client does not reply in a round.
        drop_spread: Standard deviation of `drop` between clients.
        join: Share of the clients, rounded up, that join after the first round.
        leave: Share of the clients, rounded up, that leave and do not return.
        period: Length, in rounds, of each client's cycle of presence and absence.
        on: Number of consecutive rounds of each period in which a client is present.
        schedule: CSV file (client, first, last) of the rounds in which clients are
            present.
        deadline: Time limit of a round, in multiples of the time that the median client
            needs; 0: no limit.
        speed_spread: Standard deviation of ln(speed) between clients.
        speed_noise: Standard deviation of ln(speed) between the rounds of a client.
        partial: Treatment of the update of a client whose training the deadline stops:
            "count" sends it, and "drop" discards it.
    """

    drop: float = 0.0
    drop_spread: float = 0.0
    join: float = 0.0
    leave: float = 0.0
    period: int = 0
    on: int = 0
    schedule: str = ""
    deadline: float = 0.0
    speed_spread: float = 0.0
    speed_noise: float = 0.0
    partial: Literal["count", "drop"] = "count"

    def __post_init__(self) -> None:
        numbers, speed = ("period", "on", "deadline"), ("speed_spread", "speed_noise")
        in_range(self, "availability", "[0, inf)", "drop_spread", *numbers)
        in_range(self, "availability", "[0, 1)", "drop")
        in_range(self, "availability", "[0, 1]", "join", "leave")
        in_range(self, "availability", "[0, 10]", *speed)
        if not self.deadline:
            remedy = "set availability.deadline (1 is what the median client needs)"
            idle(self, "availability", f"a deadline; {remedy}", *speed, "partial")
        most = math.sqrt(self.drop * (1 - self.drop))
        if self.drop_spread and self.drop_spread >= most:
            raise Refusal(
                f"availability.drop_spread = {self.drop_spread} is too much for "
                f"availability.drop = {self.drop}; probabilities with that mean "
                f"cannot spread so far: it must be below {most:.4g}"
            )
        if bool(self.period) != bool(self.on) or self.on > self.period:
            raise Refusal(
                f"availability.on = {self.on} of availability.period = {self.period} "
                "is no pattern; set on to at least 1 and at most period, or both to 0"
            )


@dataclass(frozen=True)
class Adversary:
    """Which clients are malicious: set `fraction`, `count` or `clients`, or none.

    Attributes:
        fraction: Share of the clients that are malicious, rounded up.
        count: Number of malicious clients, in place of `fraction`.
        clients: List of the malicious clients' numbers; the first client is 0.
        start: File (.npy, one vector) with the initial model of malicious clients.
    """

    fraction: float = 0.0
    count: int | None = None
    clients: list[int] | None = None
    start: str | None = None

    def __post_init__(self) -> None:
        in_range(self, "adversary", "[0, 1)", "fraction")
        in_range(self, "adversary", "[0, inf)", "count")
        share = self.fraction or None
        alone("adversary", fraction=share, count=self.count, clients=self.clients)
        ids = self.clients or []
        if len({*ids}) < len(ids) or min(ids, default=0) < 0:
            raise Refusal(
                f"adversary.clients = {ids!r} does not name clients; give each number "
                "once, the first client being 0"
            )

    def present(self) -> bool:
        """Return whether any client is malicious."""
        return bool(self.fraction or self.count or self.clients)

    def number(self, n: int) -> int:
        """Return how many of n clients are malicious."""
        ids = self.clients or []
        if max(ids, default=-1) >= n:
            raise Refusal(
                f"adversary.clients names client {max(ids)}, and there are {n}; "
                f"the first is 0 and the last {n - 1}"
            )
        share = rounded_up(self.fraction, n)
        hostile = self.count or len(ids) or share
        if hostile and hostile >= n:
            raise Refusal(
                f"the adversary has {hostile} of {n} clients; at least one must stay "
                "benign: lower adversary.fraction, .count or .clients"
            )
        return hostile


@dataclass(frozen=True)
class Engine:
    """How the computation is run; it does not change the results.

    Attributes:
        how: Way to train many clients; "auto": the fastest one by measurement.
        chunk: Number of clients trained together; 0: chosen by measurement.
        workers: Number of threads that train clients; 0: chosen by measurement.
        threads: Number of threads of one torch operation; 0: the idle cores.
        store: Where the state of clients is stored; "auto": the first of device, host
            and disk with enough space.
        state_dir: Folder for the state of clients on disk; "": in the run's folder.
        device: Device: auto (the fastest), cpu, cuda, cuda:N or mps.
    """

    how: Literal["auto", "loop", "vmap", "compiled", "threads"] = "auto"
    chunk: int = 0
    workers: int = 0
    threads: int = 0
    store: Literal["auto", "device", "host", "disk"] = "auto"
    state_dir: str = ""
    device: str = "auto"

    def __post_init__(self) -> None:
        in_range(self, "engine", "[0, inf)", "chunk", "workers", "threads")
        kind, colon, index = self.device.partition(":")
        allowed = ("cuda",) if colon else ("auto", "cpu", "cuda", "mps")
        if kind not in allowed or (colon and not index.isdecimal()):
            raise Refusal(
                f"engine.device = {self.device!r} is not a device; "
                "it must be auto, cpu, cuda, cuda:N (such as cuda:0) or mps"
            )


@dataclass(frozen=True)
class Checkpoint:
    """How often a run is saved.

    Attributes:
        every: Rounds between checkpoints; 0: by time, see `seconds`.
        seconds: Seconds between checkpoints, if `every` is 0.
    """

    every: int = 0
    seconds: float = 60.0

    def __post_init__(self) -> None:
        in_range(self, "checkpoint", "[0, inf)", "every", "seconds")


@dataclass(frozen=True)
class Output:
    """What a run writes to its folder in addition to the tables.

    Attributes:
        personal: Whether the personal models are written.
        checkpoint: Whether checkpoints are written.
    """

    personal: bool = True
    checkpoint: bool = True


def _part(name: str, **options: Any) -> Any:
    return field(default_factory=lambda: Part(name, options))


@dataclass(frozen=True)
class Experiment:
    """A complete experiment; `reader.from_dict` makes one from tables.

    Attributes:
        seed: Seed of all randomness.
        name: Name of the run in progress messages and tables.
        data: Where the examples come from.
        partition: How examples are divided among clients, and into training and test.
        features: How missing values of a table are filled, and inputs standardized.
        model: The model that is trained.
        train: How the shared model is trained.
        evaluate: When models are evaluated, and on which clients.
        availability: Which clients are present, reply, and finish in time.
        solver: How a client trains the shared model.
        personalizer: How a client gets its own model.
        regularizer: Penalty that pulls a personal model towards the shared one.
        adversarial: How adversarial inputs are made, for personalizers that use them.
        adversary: Which clients are malicious.
        corruption: What malicious clients do to their data.
        attack: What malicious clients send.
        filter: What the server does to the updates before it aggregates them.
        aggregator: How the server combines the updates.
        server: How the server moves the shared model.
        engine: How the computation is run; it does not change the results.
        checkpoint: How often a run is saved.
        output: What a run writes to its folder in addition to the tables.
        track: Trackers that show the run while it trains, such as TensorBoard.
        deployment: Sites of a real federation.
        resolved: Values that a run recorded about itself; they are ignored on reading.
    """

    seed: int = 0
    name: str = ""
    data: Part = _part("digits")
    partition: PartitionPart = field(
        default_factory=lambda: PartitionPart("iid", {"clients": 10})
    )
    features: Part = _part("none")
    model: ModelPart = field(default_factory=lambda: ModelPart("linear"))
    train: Train = field(default_factory=Train)
    evaluate: Evaluate = field(default_factory=Evaluate)
    availability: Availability = field(default_factory=Availability)
    solver: Part = _part("fedavg")
    personalizer: PersonalizerPart = field(
        default_factory=lambda: PersonalizerPart("none")
    )
    regularizer: Part = _part("l2sq")
    adversarial: Part = _part("pgd")
    adversary: Adversary = field(default_factory=Adversary)
    corruption: CorruptionPart = field(default_factory=lambda: CorruptionPart("auto"))
    attack: AttackPart = field(default_factory=lambda: AttackPart("none"))
    filter: list[Part] = field(default_factory=list)
    aggregator: Part = _part("mean")
    server: Part = _part("sgd")
    engine: Engine = field(default_factory=Engine)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    output: Output = field(default_factory=Output)
    track: list[Part] = field(default_factory=list, metadata={"kind": "tracker"})
    deployment: Deployment = field(default_factory=Deployment)
    resolved: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        in_range(self, "", "[0, inf)", "seed")
        if self.corruption.name == "auto" and not self.adversary.present():
            part = replace(self.corruption, name="none")
            object.__setattr__(self, "corruption", part)
