"""Copies of one benign client.

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
    """Copy one benign update from all malicious clients, so that it counts f + 1 times.

    No copy is an outlier, yet the others' data lose their weight. By default the
    adversary copies the row that lies farthest out along z, the direction in which
    benign updates vary most over the rounds so far: z = argmax_{‖z‖=1} zᵀ(Σ_t Σ_i c_i
    c_iᵀ)z with c_i = u_i − μ of round t. In the first round that is the row of the
    largest |z·u_i|; then z keeps its sense, and it is the row of the largest z·u_i (as
    in the authors' code), so that the copies always pull to one side.

    Threat model: knows all benign updates of all rounds in which it took part; controls
    the messages of all malicious clients, which act as one.

    Departs: the paper estimates z by Oja's rule from a random start and fixes one
    client after a first phase. Here z is the first singular vector of the earlier one,
    times its singular value, above the c_i (exact in the first round); and, as not
    every client is in every round, the row is chosen anew each time.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        memory: Direction z times its singular value [d]; empty at first.
        client: Client id to copy; −1 chooses as above. If the client is not in the
            round, or its row is not finite, the lowest benign id is copied.

    Returns:
        The messages, with attacked updates, and the memory.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> mimic(sent, sent.client == 2, torch.zeros(0))[0].update.tolist()
        [[1.0], [3.0], [3.0]]
    """
    must = "the id of a client, from 0 on, or -1, which takes the one farthest out"
    expect(client >= -1, "mimic's client", client, must)
    crowd = _crowd.seen(messages, hostile)
    if crowd is None:
        return messages, memory
    if client == -1:
        outside, memory = _farthest_out(crowd, memory)
    else:
        outside = messages.client[crowd.rows] == client
    row = crowd.rows[outside.long().argmax()]  # the first: rows stand by client id
    u = messages.update
    copied = torch.where(hostile[:, None], u[row], u)
    return messages._replace(update=copied), memory


def _farthest_out(crowd: _crowd.Crowd, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mask of the row that lies farthest along z, and z for the next round.

    With A the rows [memory; c_i] and a the first eigenvector of AAᵀ, the new memory is
    Aᵀa, and c_i·z is proportional to a_i: the products alone decide, in two passes over
    the columns.
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
    # z·u_i is z·mean + z·c_i, and z·c_i the eigenvalue times a_i
    along = values[-1].to(mean.device) * a[1:]
    ends = along + z @ (mean / unit)
    larger = torch.where(ends.max() >= -ends.min(), 1.0, -1.0).to(ends)
    side = torch.where(old.any() & (a[0] != 0), a[0].sign(), larger)
    z, along = side * z, side * along
    return along == along.max(), _crowd.narrow(z * unit, crowd.update.dtype)
