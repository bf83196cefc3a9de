"""A model on the client's own data alone."""

from troth.client.personalizers._own import own
from troth.types import Descent, Personal, Task


def local(task: Task, descent: Descent) -> Personal:
    """Each client trains alone: v ← v − η∇F_k(v), the λ = 0 end of Ditto.

    It moves in the rounds in which the client is asked, on the batches that it sees
    for the shared model, so that it differs from `ditto` in λ alone.
    """
    return own(descent, lambda v, anchor, batch: task.grad(v, batch))
