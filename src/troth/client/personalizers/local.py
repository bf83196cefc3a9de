"""Training on the client's own data alone."""

from troth.client.personalizers._own import own
from troth.types import Descent, Personal, Task


def local(task: Task, descent: Descent) -> Personal:
    """Train each client alone: v ← v − η∇F_k(v), which is `ditto` with λ = 0.

    v is the personal model of client k, F_k its loss, and η the learning rate. v is
    trained in the rounds in which its client takes part, on the same batches as the
    shared model.
    """
    return own(descent, lambda v, anchor, batch: task.grad(v, batch))
