"""A few classes for each client, as in Ditto's experiments on Fashion-MNIST.

References: li2021ditto, li2022niid.
"""

import itertools
from typing import Literal

import numpy as np

from troth import seeding
from troth.config.checks import expect
from troth.data.partitions._homes import check_clients, check_labels
from troth.types import TEST, TRAIN, Arrays, Refusal

_DITTO_SEED = 233


def classes(
    arrays: Arrays,
    seed: int,
    *,
    clients: int,
    per_client: int = 5,
    recipe: Literal["even", "ditto"] = "even",
    size: int = 0,
    assign: Literal["number", "first", "random"] = "number",
) -> list[np.ndarray]:
    """Give each client a few classes: client u holds (u + j) mod C for j < per_client.

    `assign` has two other choices of the classes, which are random.

    "even": the examples of a class are shuffled and divided equally among the clients
    that hold the class. Their numbers differ by at most 1. Every example is held by
    exactly one client.

    "ditto": the recipe of the authors, who used it on Fashion-MNIST with 500 clients.
    The sizes of clients are lognormal(3, 1) + 10, rescaled to sum to the number of
    training examples. The shares of a client's classes are lognormal(1, 1), normalized.
    For a client of size s, a class with share p gives int(ps) + 1 training examples and
    int(ps/6) + 1 test examples. They are the next examples of that class in file order,
    or its first ones if too few are left. All random numbers come from numpy's
    RandomState(233), so `seed` changes nothing.

    With "ditto" no client holds an example twice, but clients share some examples, and
    some are left out. On Fashion-MNIST, 58,825 of 60,000 training examples are used,
    2,426 of them on two clients each, so that clients hold 61,251 in total. Of 10,000
    test examples, 9,976 are used, 1,278 of them on two clients each, so that clients
    hold 11,254 in total. Training and test examples stay separate with
    `partition.split = "given"`.

    Args:
        arrays: Data with labels; "ditto" needs them marked as training and test.
        seed: Seed of the experiment.
        clients: Number of clients.
        per_client: Number of classes of each client; with all C of them, all clients
            have similar data.
        recipe: Rule for the share of a class that a client gets: "even" or "ditto".
        size: Number of examples of each client, for recipe "even". If it is above
            0, every client draws that many examples of its classes at random, without
            regard to other clients, so that clients share examples. With 0, no example
            is shared.
        assign: Choice of the classes of client u, of C classes: "number" is as above.
            "first" holds class u mod C and draws the others at random (Li et al. 2022,
            section 4.1), and "random" draws all of them. With "random", and with fewer
            than C clients, a class may be held by no client; its examples are then left
            out.

    Departs: if a class has fewer examples than a client needs, the authors' code makes
    more labels than inputs. Here that is refused. With their numbers it does not
    happen.
    """
    check_labels("classes", arrays)
    count = arrays.classes
    if not 1 <= per_client <= count:
        raise Refusal(
            f"partition.per_client = {per_client} must be 1 to {count}, the number of "
            "classes"
        )
    check_clients(clients, len(arrays.y))
    if recipe == "ditto":
        with_ditto = "with partition.recipe = 'ditto'"
        expect(size == 0, "partition.size", size, f"0 {with_ditto}")
        by_number = assign == "number"
        expect(by_number, "partition.assign", assign, f"'number' {with_ditto}")
        return _ditto(arrays, clients, per_client)
    random = seeding.generator(seed, "partition")
    held = _assigned(random, clients, per_client, count, assign)
    if size:
        return _drawn(arrays, seed, held, size)
    return _even(arrays, random, held, per_client, assign)


def _assigned(
    random: np.random.Generator, clients: int, per_client: int, count: int, assign: str
) -> np.ndarray:
    """Choose the classes of each client: [clients, count], True if a client holds it.

    A client holds the per_client classes of lowest rank.
    """
    own = (np.arange(count) - np.arange(clients)[:, None]) % count
    if assign == "number":
        return own < per_client
    rank = random.random((clients, count))
    if assign == "first":
        rank[own == 0] = -1.0
    held: np.ndarray = rank.argsort(axis=1).argsort(axis=1) < per_client
    return held


def _even(
    arrays: Arrays,
    random: np.random.Generator,
    held: np.ndarray,
    per_client: int,
    assign: str,
) -> list[np.ndarray]:
    """Divide each class equally among its clients; draw who gets one example more."""
    clients = len(held)
    shares: list[list[np.ndarray]] = [[np.empty(0, np.int64)] for _ in range(clients)]
    for label in range(arrays.classes):
        rows = random.permutation(np.flatnonzero(arrays.y == label))
        holders = random.permutation(np.flatnonzero(held[:, label]))
        if len(rows) and not len(holders) and assign == "number":
            need = arrays.classes - per_client + 1
            raise Refusal(
                f"with partition.clients = {clients} and partition.per_client = "
                f"{per_client} no client holds class {label}: set partition.clients to "
                f"at least {need}, or partition.per_client to at least "
                f"{arrays.classes - clients + 1}"
            )
        for i, u in enumerate(holders):
            shares[u].append(rows[i :: len(holders)])
    return [np.sort(np.concatenate(share)) for share in shares]


def _drawn(arrays: Arrays, seed: int, held: np.ndarray, size: int) -> list[np.ndarray]:
    """Draw `size` examples of each client's classes, independently of other clients."""
    lists = []
    for u in range(len(held)):
        rows = np.flatnonzero(held[u][arrays.y])
        must = f"0, or 1 to {len(rows)}, as many as client {u}'s classes have"
        expect(1 <= size <= len(rows), "partition.size", size, must)
        random = seeding.generator(seed, "partition", u)
        lists.append(np.sort(random.choice(rows, size, replace=False)))
    return lists


def _ditto(arrays: Arrays, clients: int, per_client: int) -> list[np.ndarray]:
    """Divide the data by the authors' recipe, client by client."""
    if arrays.split is None:
        raise Refusal(
            "partition.recipe = 'ditto' needs data marked as training and test and "
            "these are not: use data with a published split, or recipe = 'even'"
        )
    random = np.random.RandomState(_DITTO_SEED)
    total = int((arrays.split == TRAIN).sum())
    sizes = random.lognormal(3, 1, clients) + 10
    sizes = total * sizes / sum(sizes)  # added in order, as in their code
    heaps = {
        (part, label): np.flatnonzero((arrays.split == part) & (arrays.y == label))
        for part in (TRAIN, TEST)
        for label in range(arrays.classes)
    }
    ahead = dict.fromkeys(heaps, 0)  # the next example of each heap
    lists = []
    for u in range(clients):
        shares = random.lognormal(1, 1, per_client)
        shares = shares / sum(shares)
        taken = []
        for (j, share), part in itertools.product(enumerate(shares), (TRAIN, TEST)):
            key = part, (u + j) % arrays.classes
            count = int(share * sizes[u] / (6 if part == TEST else 1)) + 1
            if count > len(heaps[key]):
                raise Refusal(
                    f"partition.recipe = 'ditto' wants {count} examples of class "
                    f"{key[1]} for one client and there are {len(heaps[key])}: raise "
                    "partition.clients, or use recipe = 'even'"
                )
            start = ahead[key] if ahead[key] + count <= len(heaps[key]) else 0
            ahead[key] = start + count
            taken.append(heaps[key][start : start + count])
        lists.append(np.sort(np.concatenate(taken)))
    return lists
