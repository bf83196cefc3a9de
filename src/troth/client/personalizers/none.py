"""No personal model."""

from troth.types import Personal


def none() -> Personal:
    """Predict with the shared model at every client."""
    return Personal(
        init=lambda w0: (),
        step=lambda state, anchor, batch, valid, scale: state,
        model=lambda w, state: w,
        idle=True,
    )
