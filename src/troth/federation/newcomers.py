"""Clients that never took part: who they are, and how each gets its own model.

The same for every personalizer: a newcomer starts from the last shared model, trains
some rounds with the last broadcast, whose updates nobody receives, and then does what
its personalizer does once, after the last round.
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
    """Draw the share `evaluate.newcomers` of all clients, rounded up, among the benign.

    `hostile` is a mask [n] of the malicious clients. Returns ids, ascending.
    """
    n, benign = len(hostile), np.flatnonzero(~hostile)
    count = rounded_up(e.evaluate.newcomers, n)
    if count >= len(benign):
        raise Refusal(
            f"evaluate.newcomers = {e.evaluate.newcomers} sets {count} of {n} clients "
            f"aside, and {len(benign)} are benign; at least one of these must take "
            f"part: set it below {len(benign) / n:.4g}"
        )
    some = seeding.choose(e.seed, "newcomers", 0, len(benign), count)
    return np.sort(benign[some])


def others(n: int, newcomers: np.ndarray) -> np.ndarray:
    """Return the ids of all of n clients but the newcomers, ascending."""
    return np.setdiff1d(np.arange(n), newcomers)


def fewer(e: Experiment, shards: Shards, newcomers: np.ndarray) -> Shards:
    """Leave newcomers at most `evaluate.newcomer_examples` training examples.

    They are drawn; a smaller number is a part of a larger one.
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
    """Return how many rounds a newcomer trains: `evaluate.newcomer_rounds`.

    0: as many as a member is asked on average, rounds · cohort / members, at least 1.
    """
    asked = e.train.rounds * (e.train.cohort or members) / members
    return e.evaluate.newcomer_rounds or max(1, round(asked))


def scales(scale: Callable[[int], float], run: int, count: int) -> list[float]:
    """Return the schedule's factors in a newcomer's `count` rounds of a `run`.

    Those of rounds at equal distances over the run, as a client has that is asked now
    and then: in the last rounds alone `cosine` hardly moves.
    """
    return [scale((2 * j + 1) * run // (2 * count)) for j in range(count)]


@torch.no_grad()
def join(
    engine: Engine,
    broadcast: Broadcast,
    ids: np.ndarray,
    run: int,  # rounds of the run; their draws are keyed by rounds after these
    factors: list[float],  # on every learning rate, one per round of theirs
) -> Tensor:
    """Train newcomers from the last broadcast on their data; return their states."""
    start = engine.start(broadcast.w)
    rows = start.expand(len(ids), -1).clone()

    def through(phase: str, factor: float, round_: int) -> Tensor:
        sent = outgoing(engine, broadcast, factor, round_)
        return engine.run(phase, sent, rows, ids, round_)[1]

    if not engine.client.idle and len(start):
        for j, factor in enumerate(factors):
            rows = through("local", factor, run + 1 + j)
    if engine.client.finish is not None:  # the whole learning rate, as for members
        rows = through("finish", 1.0, run)
    return rows


def serve(f: Federation, e: Experiment, chunk: int) -> Iterator[int]:
    """Make newcomers' models after the last round; yield how many each time."""
    count = rounds(e, len(f.members)) if len(f.newcomers) else 1
    factors = scales(f.scale, f.rounds, count)
    for ids in f.groups(f.newcomers, chunk):
        rows = join(f.engine, f.broadcast, ids, f.rounds, factors)
        f.population.write(ids, rows)
        yield len(ids)
