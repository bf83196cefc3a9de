"""Make a model for a newcomer: a client that took no part in training.

This needs the folder of a run and the client's data, but not the data of the run. The
procedure is that for newcomers within a run (`newcomers.join`).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from troth import build, files
from troth.data import preprocess
from troth.data.split import deal
from troth.data.user_files import Examples, read
from troth.engine.local_training import Engine, Plan
from troth.evaluation import evaluate
from troth.federation import newcomers
from troth.networks import layers, task
from troth.runs.load import PREPARED, Run
from troth.types import TEST, TRAIN, VALID, Arrays, Broadcast, Data, Refusal, Shards


class Newcomer(NamedTuple):
    """The model of a newcomer, and its scores."""

    model: nn.Module  # takes inputs in the units of the data set
    rounds: int  # number of rounds of training; 0 if rounds have no effect
    examples: dict[str, int]  # number of train, valid and test examples
    personal: dict[str, float]  # scores of the model; empty without test examples
    shared: dict[str, float]  # scores of the shared model on the same examples
    tensors: dict[str, Tensor]  # parameters and buffers of the model, by name
    run: str  # fingerprint of the run

    def save(self, file: str | Path) -> None:
        """Write the model to a new .safetensors file, which `Run.newcomer` opens."""
        if Path(file).exists():
            raise Refusal(f"{file} exists already; give another file, or remove it")
        files.save(Path(file), self.tensors, run=self.run)


class _Made(NamedTuple):
    """A newcomer's engine and data."""

    engine: Engine
    data: Data
    features: list[Tensor]  # fill, mean and std; empty if inputs are not prepared


def personalize(
    run: Run | str | Path,
    data: Examples,
    *,
    rounds: int = 0,
    test: float = 0.2,
    device: str = "auto",
) -> Newcomer:
    """Make a model for a client that took no part in training, from a finished run.

    The personalizer of the run trains a model on the newcomer's examples, starting from
    the shared model, for some rounds without a server. If the personalizer also trains
    after the last round, this follows. With `ditto`, the result is a model that is
    pulled towards the shared model; with `finetune`, the shared model after further
    training; with `none`, the shared model itself.

    Departs: SCAFFOLD's control variates, which the folder of a run does not contain,
    are set to 0.

    Args:
        run: A finished run, or its folder.
        data: The newcomer's examples: an .npz file with arrays `x` and `y`, or a
            dictionary with these arrays, in the format of the run's data set. A further
            array `split` may divide the examples into train, valid and test.
        rounds: Number of rounds in which the newcomer trains. 0 means the setting
            `evaluate.newcomer_rounds` of the run. If that is 0 too, it is the average
            number of rounds in which a client was sampled.
        test: Fraction of the examples that is held out for testing, in [0, 1).
        device: Device to compute on: auto, cpu, cuda, cuda:N or mps.

    Returns:
        The model, a `torch.nn.Module`, its scores, and those of the shared model.

    Raises:
        Refusal: If the examples do not fit the run, or are too few.

    >>> import tempfile, torch, troth, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> tree = {"partition": {"name": "iid", "clients": 4}, "train": {"rounds": 1}}
    >>> settings = ["engine.how=loop", "personalizer={name='finetune',epochs=1}"]
    >>> [one] = troth.run(tree, settings=settings, out=f"{folder.name}/run")
    >>> mine = {"x": np.ones((20, 1, 8, 8)), "y": np.arange(20) % 10}
    >>> made = troth.personalize(one, mine, test=0.5, device="cpu")
    >>> made.examples, made.model(torch.ones(3, 1, 8, 8)).shape
    ({'train': 10, 'valid': 0, 'test': 10}, torch.Size([3, 10]))
    >>> folder.cleanup()

    Read on: `docs/how-to/newcomers.md`.
    """
    if rounds < 0:
        raise Refusal(
            f"rounds = {rounds} must be at least 0; 0 takes as many as the average "
            "client was selected in"
        )
    if not 0 <= test < 1:
        raise Refusal(
            f"test = {test} must be a share of the examples: at least 0 and below 1"
        )
    run = run if isinstance(run, Run) else Run(run)
    e, where = run.experiment, build.device(device)
    made = _ready(run, read(run.experiment, data), test, where)
    engine = made.engine
    count = rounds or newcomers.rounds(e, _members(run))
    count = 0 if engine.client.idle else count
    w = task.flatten(engine.objective.net)
    if not bool(w.isfinite().all()):
        raise Refusal(
            f"the shared model of {run.path} is not finite, and no model can be made "
            "from it; train with a smaller train.lr or a robust aggregator first"
        )
    sent = Broadcast(w, w.new_zeros(engine.client.extra), w.new_ones(()))
    factors = newcomers.scales(build.schedule(e), e.train.rounds, count)
    only = np.zeros(1, np.int64)
    rows = newcomers.join(engine, sent, only, e.train.rounds, factors)
    with torch.no_grad():
        v = engine.models(w, engine.settled(rows, only))[0]
    return _newcomer(run, made, w, v, count)


def _newcomer(run: Run, made: _Made, w: Tensor, v: Tensor, rounds: int) -> Newcomer:
    """Return the newcomer's model with its scores."""
    parts = {name: getattr(made.data, name) for name in ("train", "valid", "test")}
    examples = {name: len(part.y) for name, part in parts.items()}
    own, shared = dict[str, float](), dict[str, float]()
    if examples["test"]:
        only, test = np.zeros(1, np.int64), made.data.test
        tables = [evaluate.shared(made.engine, u, test, only) for u in (v, w)]
        own, shared = ({k: float(c[0]) for k, c in t.items()} for t in tables)
    net = run.network()
    task.assign(net, v.cpu())
    state = net.state_dict().items()
    tensors = {k: t.clone() for k, t in state if isinstance(t, Tensor)}
    if made.features:
        tensors |= dict(zip(PREPARED, made.features, strict=True))
        net = nn.Sequential(layers.Features(*made.features), net).eval()
    mark = str(run.experiment.resolved["fingerprint"])
    return Newcomer(net, rounds, examples, own, shared, tensors, mark)


def _ready(run: Run, arrays: Arrays, test: float, where: torch.device) -> _Made:
    """Make the newcomer's engine and data.

    Validation examples are drawn only if the personalizer uses them.
    """
    e, m = run.experiment, len(arrays.y)
    made = _made(run, arrays, _marks(run, arrays, test, valid=0.0), where)
    if not build.chooses(made.engine.client):
        return made
    given, valid = e.partition.split, e.partition.valid
    if not isinstance(given, str):  # the same fraction as for the run's clients
        valid = given[VALID] / (given[TRAIN] + given[VALID])
    marks = _marks(run, arrays, test, valid)
    if not (marks == VALID).any():
        raise Refusal(
            f"personalizer '{e.personalizer.name}' needs validation data, and none "
            f"of {m} examples is left for validation; give more, or mark some as "
            "'valid' in an array split"
        )
    return _made(run, arrays, marks, where)


def _made(run: Run, arrays: Arrays, marks: np.ndarray, where: torch.device) -> _Made:
    """Make the newcomer's engine and data from examples that are already split."""
    e = run.experiment
    plan = Plan("threads", 1) if where.type == "cpu" else Plan("loop", 1)
    dtype, fitted, nobody = build.precision(e), None, np.zeros(1, dtype=bool)
    if preprocess.active(e.features):
        preprocess.check(e, arrays)
        fitted = run.statistics()
    train, valid, test = (
        [np.flatnonzero(marks == mark)] for mark in (TRAIN, VALID, TEST)
    )
    shards = Shards(train, valid, test)
    raw = preprocess.Raw(arrays, shards, dtype, where, nobody, None, e.seed)
    data, prepared, _ = preprocess.deal(e.features, raw, fitted=fitted)
    net = run.network().to(where, dtype)
    engine = build.make_engine(e, net, data, arrays, _members(run), plan)
    features: list[Tensor] = []
    if prepared:
        shape = prepared.imputed.shape[1:]
        whole = (v.reshape(shape) for v in prepared.statistics[:3])
        features = [torch.from_numpy(v) for v in whole]
    return _Made(engine, data, features)


def _members(run: Run) -> int:
    """Return the number of clients that could take part in training."""
    facts = run.experiment.resolved
    return int(facts["clients"] - facts.get("newcomers", 0))


def _marks(run: Run, arrays: Arrays, test: float, valid: float) -> np.ndarray:
    """Return TRAIN, VALID or TEST for each example, as given in the data or drawn.

    `test` is the fraction of test examples, and `valid` the fraction of validation
    examples among the others.
    """
    if arrays.split is not None:
        if not (arrays.split == TRAIN).any():
            raise Refusal(
                f"split marks none of {len(arrays.split)} examples as 'train'; mark "
                "some, or leave split out"
            )
        return arrays.split
    parts = (1 - test) * (1 - valid), (1 - test) * valid, test
    client = np.zeros(len(arrays.y), np.int64)
    plain = arrays.classes > 0 and arrays.y.ndim == 1
    number = np.array([run.experiment.resolved["clients"]])  # an unused client id
    label = arrays.y if plain else client
    return deal(label, client, number, parts, run.experiment.seed)
