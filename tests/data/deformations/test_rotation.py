import itertools
import math

import torch

from troth.data.deformations.rotation import rotation


def turned(x, angle, **options):
    return rotation(x, torch.full((len(x), 1), angle), **options)


def test_quarter_turns_are_clockwise():
    each = itertools.product((1, 2, 3, 28, 32), (-3, -1, 1, 2, 5), ("edges", "centres"))
    for side, quarters, frame in each:
        x = torch.rand(2, 3, side, side)
        expected = torch.rot90(x, -quarters, (-2, -1))
        angle = quarters * math.pi / 2
        out = turned(x, angle, frame=frame, interpolation="nearest")
        assert torch.equal(out, expected)
        assert (turned(x, angle, frame=frame) - expected).abs().max() < 1e-4
