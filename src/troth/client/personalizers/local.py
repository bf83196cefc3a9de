"""Training on the client's own data alone."""

from troth.client.personalizers._own import own
from troth.types import Descent, Personal, Task


def local(task: Task, descent: Descent) -> Personal:
    """Train each client alone: v ← v − η∇F_k(v), which is `ditto` with λ = 0.

    v moves in the rounds in which its client takes part, on the same batches as the
    shared model. So it differs from `ditto` in λ alone.
    """
    return own(descent, lambda v, anchor, batch: task.grad(v, batch))
