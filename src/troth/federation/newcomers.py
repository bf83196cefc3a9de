"""Newcomers: clients that took no part in training and get a model afterwards.

The procedure is the same for every personalizer. A newcomer starts from the final
shared model and trains for some rounds with this model as the server's message. Its
updates are not used. If the personalizer trains clients after the last round
(fine-tuning), it trains newcomers in the same way. All other clients are called
members.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from troth import seeding
from troth.config.schema import Experiment, rounded_up
from troth.engine.local_training import Engine
from troth.federation.rounds import Federation, outgoing
from troth.types import Broadcast, Refusal, Shards


def drawn(e: Experiment, hostile: np.ndarray) -> np.ndarray:
    """Draw the newcomers from the benign clients; return their sorted ids.

    Their number is n times the fraction `evaluate.newcomers`, rounded up. `hostile` is
    the mask [n] of malicious clients. Raise Refusal if no benign client would be left.
    """
    n, benign = len(hostile), np.flatnonzero(~hostile)
    count = rounded_up(e.evaluate.newcomers, n)
    if count >= len(benign):
        raise Refusal(
            f"evaluate.newcomers = {e.evaluate.newcomers} sets {count} of {n} clients "
            f"aside, and {len(benign)} are benign; at least one benign client must "
            f"take part in training: set it below {len(benign) / n:.4g}"
        )
    some = seeding.choose(e.seed, "newcomers", 0, len(benign), count)
    return np.sort(benign[some])


def others(n: int, newcomers: np.ndarray) -> np.ndarray:
    """Return the sorted ids of all of the clients 0 … n − 1 that are not newcomers."""
    return np.setdiff1d(np.arange(n), newcomers)


def fewer(e: Experiment, shards: Shards, newcomers: np.ndarray) -> Shards:
    """Keep at most `evaluate.newcomer_examples` training examples of each newcomer.

    They are drawn at random. With a smaller limit, they are a subset of those with a
    larger limit. 0 means no limit.
    """
    most = e.evaluate.newcomer_examples
    if not most:
        return shards
    train = list(shards.train)
    for k in map(int, newcomers):
        own = train[k]
        if len(own) > most:
            order = seeding.generator(e.seed, "newcomer", k).permutation(len(own))
            train[k] = own[np.sort(order[:most])]
    return shards._replace(train=train)


def rounds(e: Experiment, members: int) -> int:
    """Return the number of rounds in which a newcomer trains.

    The number is `evaluate.newcomer_rounds`. If this is 0, it is the mean number of
    rounds in which a member is sampled: rounds · cohort / members, and at least 1.
    """
    asked = e.train.rounds * (e.train.cohort or members) / members
    return e.evaluate.newcomer_rounds or max(1, round(asked))


def scales(scale: Callable[[int], float], run: int, count: int) -> list[float]:
    """Return the factors of the learning rate in the rounds of a newcomer.

    A newcomer trains in `count` rounds. The factors are those of the schedule `scale`
    in `count` evenly spaced rounds of the run, which has `run` rounds. So a newcomer
    trains with the learning rates of a member that is sampled now and then. If only
    factors of the last rounds were used, a schedule such as `cosine` would hardly
    change the newcomer's model.
    """
    return [scale((2 * j + 1) * run // (2 * count)) for j in range(count)]


@torch.no_grad()
def join(
    engine: Engine,
    broadcast: Broadcast,
    ids: np.ndarray,
    run: int,  # number of rounds of the run; random numbers use the numbers after it
    factors: list[float],  # factors of every learning rate, one per newcomer round
) -> Tensor:
    """Train newcomers on their data, starting from `broadcast`; return their states."""
    start = engine.start(broadcast.w)
    rows = start.expand(len(ids), -1).clone()

    def through(phase: str, factor: float, round_: int) -> Tensor:
        sent = outgoing(engine, broadcast, factor, round_)
        return engine.run(phase, sent, rows, ids, round_)[1]

    if not engine.client.idle and len(start):
        for j, factor in enumerate(factors):
            rows = through("local", factor, run + 1 + j)
    if engine.client.finish is not None:  # with the full learning rate, as for members
        rows = through("finish", 1.0, run)
    return rows


def serve(f: Federation, e: Experiment, chunk: int) -> Iterator[int]:
    """Train the newcomers in chunks; yield the number of clients of each chunk."""
    count = rounds(e, len(f.members)) if len(f.newcomers) else 1
    factors = scales(f.scale, f.rounds, count)
    for ids in f.groups(f.newcomers, chunk):
        rows = join(f.engine, f.broadcast, ids, f.rounds, factors)
        f.population.write(ids, rows)
        yield len(ids)
