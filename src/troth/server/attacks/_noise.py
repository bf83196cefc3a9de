"""Normal draws in place of updates, one stream per client."""

import torch
from torch import Tensor

from troth import seeding
from troth.networks import kernels
from troth.server.attacks import _crowd
from troth.types import Messages


def noise(
    messages: Messages, rows: Tensor, key: Tensor, mean: float, std: Tensor
) -> Messages:
    """Replace some rows [f] by draws from N(mean, std²), each number drawn for itself.

    The draws of a client come from its id: neither the order of the rows nor who else
    is there changes them. Draws take the memory of one row at most. `std` is [f].
    """
    if len(rows) == 0:
        return messages
    update = messages.update.clone(memory_format=torch.contiguous_format)
    d, dtype = update.shape[1], update.dtype
    drawn_in = torch.promote_types(dtype, torch.float32)
    keys = seeding.fold(key.to(update.device), messages.client[rows])
    if dtype == torch.float32 and kernels.ready(update):
        from troth.networks.kernels import normal

        normal.fill(update, rows, keys, std, torch.full_like(std, mean))
        return messages._replace(update=update)
    for i, row in enumerate(rows.tolist()):
        drawn = seeding.normal(keys[i], d, drawn_in).double() * std[i] + mean
        update[row] = _crowd.narrow(drawn, dtype)
    return messages._replace(update=update)
