"""A model for a client that never took part, from a run's folder and its own data.

Nothing of the run's training data is needed. What is done is what a run does for its
own newcomers (`newcomers.join`).
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
    """What a newcomer gets, and how well it is served by it."""

    model: nn.Module  # takes inputs as the data set had them
    rounds: int  # that it went through; 0 where these change nothing
    examples: dict[str, int]  # how many it trained, validated and was tested on
    personal: dict[str, float]  # scores of its own model; none without test examples
    shared: dict[str, float]  # of the shared one, on the same examples
    tensors: dict[str, Tensor]  # the model's, by name
    run: str  # fingerprint of the run

    def save(self, file: str | Path) -> None:
        """Write the model as a new .safetensors file, which `Run.newcomer` opens."""
        if Path(file).exists():
            raise Refusal(f"{file} exists already; give another file, or remove it")
        files.save(Path(file), self.tensors, run=self.run)


class _Made(NamedTuple):
    """A newcomer, ready to step."""

    engine: Engine
    data: Data
    features: list[Tensor]  # fill, mean and std, where inputs are prepared


def personalize(
    run: Run | str | Path,
    data: Examples,
    *,
    rounds: int = 0,
    test: float = 0.2,
    device: str = "auto",
) -> Newcomer:
    """Make a model for a client that never took part, from its data and a run's folder.

    Its personalizer starts from the shared model, works some rounds on the newcomer's
    examples, of which the server learns nothing, and then does what it does after the
    last round: with `ditto` a model pulled to the shared one, with `finetune` the
    shared one trained on, with `none` the shared one itself.

    Departs: SCAFFOLD's control variates are not in a run's folder and count as 0.

    Args:
        run: finished, or its folder; nothing else of it is needed.
        data: an .npz file with x and y (and split, where they are divided already), or
            these arrays by name, as the run's data set had them.
        rounds: number of rounds; 0: `evaluate.newcomer_rounds` of the run, or as many
            as the average client was asked.
        test: share of the examples that is held out to test on; 0: none.
        device: auto, cpu, cuda, cuda:N or mps.

    Returns:
        The model, an ordinary `nn.Module`, and its scores beside the shared one's.

    Raises:
        Refusal: examples that do not fit this run, or too few of them.

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
            f"rounds = {rounds} must be at least 0, which is as many as the average "
            "client was asked"
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
            "of it; train with a smaller train.lr or a robust aggregator first"
        )
    sent = Broadcast(w, w.new_zeros(engine.client.extra), w.new_ones(()))
    factors = newcomers.scales(build.schedule(e), e.train.rounds, count)
    only = np.zeros(1, np.int64)
    rows = newcomers.join(engine, sent, only, e.train.rounds, factors)
    with torch.no_grad():
        v = engine.models(w, engine.settled(rows, only))[0]
    return _newcomer(run, made, w, v, count)


def _newcomer(run: Run, made: _Made, w: Tensor, v: Tensor, rounds: int) -> Newcomer:
    """Return the model, and how well it does."""
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
    """Make the newcomer's engine and data; validate only where it is used."""
    e, m = run.experiment, len(arrays.y)
    made = _made(run, arrays, _marks(run, arrays, test, valid=0.0), where)
    if not build.chooses(made.engine.client):
        return made
    given, valid = e.partition.split, e.partition.valid
    if not isinstance(given, str):  # the share of the run's own clients
        valid = given[VALID] / (given[TRAIN] + given[VALID])
    marks = _marks(run, arrays, test, valid)
    if not (marks == VALID).any():
        raise Refusal(
            f"personalizer '{e.personalizer.name}' chooses by validation data, and of "
            f"{m} examples none is left for that; give more, or mark some in an array "
            "split as 'valid'"
        )
    return _made(run, arrays, marks, where)


def _made(run: Run, arrays: Arrays, marks: np.ndarray, where: torch.device) -> _Made:
    """Make them of examples that are divided already."""
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
    """Return how many clients took part."""
    facts = run.experiment.resolved
    return int(facts["clients"] - facts.get("newcomers", 0))


def _marks(run: Run, arrays: Arrays, test: float, valid: float) -> np.ndarray:
    """Return TRAIN, VALID or TEST for each example, as marked or else drawn.

    `valid` is a share of what is not held out for tests.
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
    number = np.array([run.experiment.resolved["clients"]])  # that no client has
    label = arrays.y if plain else client
    return deal(label, client, number, parts, run.experiment.seed)
