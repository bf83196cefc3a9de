"""Messages as a server gets them, and its members called as a round calls them."""

import numpy as np
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.server import rules
from troth.types import Broadcast, Messages


def messages(update, client=None, loss=None, size=None, extra=0):
    """Messages with these updates, of clients 0, 1, … with unlike losses and sizes."""
    update = torch.as_tensor(update)
    n = len(update)
    ids = torch.arange(n) if client is None else torch.as_tensor(client)
    beside = update.new_ones(n, extra) if isinstance(extra, int) else extra
    reported = torch.arange(n) / 10 if loss is None else torch.as_tensor(loss)
    counts = torch.arange(n) + 1 if size is None else torch.as_tensor(size)
    return Messages(update, beside, reported, counts, ids)


def drawn(n, d, seed=0, dtype=torch.float64):
    """[n, d] normal numbers."""
    draw = torch.Generator().manual_seed(1000 * n + 10 * d + seed)
    return torch.randn(n, d, generator=draw, dtype=torch.float64).to(dtype)


def mixed(sent, order):
    """The same messages, in another order or some of them."""
    return Messages(*(field[order] for field in sent))


def key(round_=0, seed=0):
    """Of a round's draws."""
    return seeding.keys(seed, "rule", round_, torch.tensor(0))


def applied(kind, name, sent, memory=None, **given):
    """Result and memory of a member, as a round calls it, and what it noted.

    What it has as an option is one; anything else is what it may ask for.
    """
    known = lookup.options(lookup.find(kind, name))
    options = {k: given.pop(k) for k in [*given] if k in known}
    noted: dict[str, Tensor] = {}
    zero = sent.update.new_zeros
    rule = rules.lift(kind, name, lookup.check(kind, name, options))
    context = {
        "broadcast": Broadcast(
            zero(sent.update.shape[1]), zero(sent.extra.shape[1]), zero(()) + 1
        ),
        "messages": sent,
        "loss": sent.loss,
        "key": key(),
        "round_": 0,
        "note": noted.update,
        **given,
    }
    memory = rules.no_memory() if memory is None else memory
    return *rule(memory, **context), noted


def walked(server, steps, **options):
    """The models that a server leads to from 0, one row per step."""
    w, memory = torch.zeros(steps.shape[1]).double(), torch.zeros(0)
    found = []
    for step in torch.from_numpy(steps):
        sent = Broadcast(w, w[:0], w.new_ones(()))
        w, memory = server(sent, step, memory, **options)
        found.append(w.numpy())
    return np.stack(found)


def members(kind):
    """Member → its options with their defaults, and the keys of its papers."""
    found = {}
    for name in lookup.names(kind):
        about = lookup.about(kind, name)
        keys = [c[c.index("{") + 1 : c.index(",")] for c in about.citations]
        found[name] = about.options, keys
    return found
