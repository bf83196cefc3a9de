"""No personal model."""

from troth.types import Personal


def none() -> Personal:
    """Every client predicts with the shared model."""
    return Personal(
        init=lambda w0: (),
        step=lambda state, anchor, batch, valid, scale: state,
        model=lambda w, state: w,
        idle=True,
    )
