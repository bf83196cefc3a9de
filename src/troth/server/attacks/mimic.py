"""Mimic: all malicious clients copy one benign client.

References: karimireddy2022byzantine.
"""

import torch
from torch import Tensor

from troth.config.checks import expect
from troth.server.attacks import _crowd
from troth.types import Messages


def mimic(
    messages: Messages, hostile: Tensor, memory: Tensor, *, client: int = -1
) -> tuple[Messages, Tensor]:
    """Send copies of one benign update from all malicious clients.

    No copy is an outlier, but the copied client gets a larger weight than the others.
    By default, the choice depends on z, the direction in which benign updates have
    varied most in all rounds so far: z = argmax_{‖z‖=1} zᵀ(Σ_t Σ_i c_i c_iᵀ)z with c_i
    = u_i − μ for the benign updates u_i of round t with mean μ. In the first round, the
    update with the largest |z·u_i| is copied. Afterwards z keeps its sign, and the
    update with the largest z·u_i is copied (as in the authors' code). So the copies
    always bias the result in the same direction.

    Threat model: knows all benign updates of all rounds in which it took part; controls
    the messages of all malicious clients, which act as one.

    Departs: the paper estimates z by Oja's rule from a random start, and copies a fixed
    client after a first phase. Here z is the first right singular vector of a matrix
    whose rows are the c_i of this round and the previous z times its singular value.
    This is exact in the first round. The client to copy is chosen again in each round,
    because not every client takes part in every round.

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        memory: Direction z times its singular value [d]; empty at first.
        client: Id of the client to copy. −1 copies the client whose update has the
            largest component along z. If the given client is not a benign client of the
            round, or its update is not finite, the benign client with the lowest id is
            copied.

    Returns:
        The messages, with the malicious updates replaced, and the new memory.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> mimic(sent, sent.client == 2, torch.zeros(0))[0].update.tolist()
        [[1.0], [3.0], [3.0]]
    """
    must = "the id of a client, or -1 for the client with the largest deviation"
    expect(client >= -1, "mimic's client", client, must)
    crowd = _crowd.seen(messages, hostile)
    if crowd is None:
        return messages, memory
    if client == -1:
        outside, memory = _farthest_out(crowd, memory)
    else:
        outside = messages.client[crowd.rows] == client
    row = crowd.rows[outside.long().argmax()]  # the first one has the lowest id
    u = messages.update
    copied = torch.where(hostile[:, None], u[row], u)
    return messages._replace(update=copied), memory


def _farthest_out(crowd: _crowd.Crowd, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mask of the update to copy, and the memory of the next round.

    Let A be the matrix with the rows `memory` and c_i, and a the first eigenvector of
    AAᵀ. Then the new memory is Aᵀa, and c_i·z is proportional to a_i. So inner products
    of the rows are enough, which takes two passes over the columns.
    """
    mean, std = _crowd.moments(crowd)
    old = memory.double() if len(memory) else torch.zeros_like(mean)
    unit = _crowd.power_of_two(torch.maximum(std.max(), old.abs().max()))
    products = _crowd.gram(crowd, mean, unit, old / unit).cpu()
    values, vectors = torch.linalg.eigh(products)
    a = vectors[:, -1].to(mean.device)
    new = [
        a[0] * old[block] / unit + a[1:] @ _crowd.away(x, mean[block], unit)
        for block, x in _crowd.blocks(crowd)
    ]
    z = torch.cat(new)
    # z·u_i is z·mean + z·c_i, and z·c_i is the eigenvalue times a_i.
    along = values[-1].to(mean.device) * a[1:]
    ends = along + z @ (mean / unit)
    larger = torch.where(ends.max() >= -ends.min(), 1.0, -1.0).to(ends)
    side = torch.where(old.any() & (a[0] != 0), a[0].sign(), larger)
    z, along = side * z, side * along
    return along == along.max(), _crowd.narrow(z * unit, crowd.update.dtype)
