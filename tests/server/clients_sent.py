"""Messages as a server gets them, and its members called as a round calls them."""

import numpy as np
import torch
from hypothesis import strategies as st

from troth import lookup, seeding
from troth.server import rules
from troth.server.rules import broadcast
from troth.types import Messages

DENORMAL = st.integers(-9, 9).map(lambda steps: steps * 2.0**-149)
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32) | DENORMAL
FLOATS = FLOATS | st.integers(-3, 3).map(float)
RANDOM = st.randoms(use_true_random=False)


def matrices(numbers, n, d=3):
    """Up to n rows of one width, at most d."""
    row = st.integers(1, d).map(lambda d: st.lists(numbers, min_size=d, max_size=d))
    return row.flatmap(lambda row: st.lists(row, min_size=1, max_size=n))


def messages(update, client=None, loss=None, size=None, extra=0):
    """Messages with these updates, of clients 0, 1, … with unlike losses and sizes."""
    update = torch.as_tensor(update)
    n = len(update)
    ids = torch.arange(n) if client is None else torch.as_tensor(client)
    beside = update.new_ones(n, extra) if isinstance(extra, int) else extra
    reported = torch.arange(n) / 10 if loss is None else torch.as_tensor(loss)
    counts = torch.arange(n) + 1 if size is None else torch.as_tensor(size)
    return Messages(update, beside, reported, counts, ids)


def column(*values, dtype=torch.float32, **more):
    """Messages of a model with one parameter."""
    return messages(torch.tensor(values, dtype=dtype)[:, None], **more)


def drawn(n, d, seed=0, dtype=torch.float64):
    """[n, d] normal numbers."""
    draw = torch.Generator().manual_seed(1000 * n + 10 * d + seed)
    return torch.randn(n, d, generator=draw, dtype=torch.float64).to(dtype)


def mixed(sent, order):
    """The same messages, in another order or some of them."""
    return Messages(*(field[order] for field in sent))


def same(a, b):
    """Bit for bit; of messages, every field."""
    if isinstance(a, tuple):
        return all(map(same, a, b))
    widths = {torch.float32: torch.int32, torch.float64: torch.int64}
    return torch.equal(*(x.view(widths.get(x.dtype, x.dtype)) for x in (a, b)))


def key(round_=0, seed=0):
    """Of a round's draws."""
    return seeding.keys(seed, "rule", round_, torch.tensor(0))


def noted(rule, *given, **options):
    """Result of a rule, and what it noted."""
    said = {}
    return rule(*given, note=said.update, **options), said


def applied(kind, name, sent, memory=None, **given):
    """Result and memory of a member, as a round calls it, and what it noted.

    What it has as an option is one; anything else is what it may ask for.
    """
    known = lookup.options(lookup.find(kind, name))
    options = {k: given.pop(k) for k in [*given] if k in known}
    said, zero = {}, sent.update.new_zeros
    rule = rules.lift(kind, name, lookup.check(kind, name, options))
    context = {
        "broadcast": broadcast(zero(sent.update.shape[1]), sent.extra.shape[1]),
        "messages": sent,
        "loss": sent.loss,
        "key": key(),
        "round_": 0,
        "note": said.update,
    }
    memory = rules.no_memory() if memory is None else memory
    return *rule(memory, **context | given), said


def walked(server, steps, **options):
    """The models that a server leads to from 0, one row per step."""
    w, memory = torch.zeros(steps.shape[1]).double(), torch.zeros(0)
    found = []
    for step in torch.from_numpy(steps):
        w, memory = server(broadcast(w), step, memory, **options)
        found.append(w.numpy())
    return np.stack(found)


def natural(file, split, /, **arrays):
    """Sections of an experiment on these arrays, of which every owner is a client."""
    np.savez(file, **arrays)
    data = {"name": "npz", "path": str(file)}
    return {"data": data, "partition": {"name": "natural", "split": split}}
