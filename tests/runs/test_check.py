import pytest
from torch import nn

from troth.runs import check as checking
from troth.types import Refusal


class net(nn.Module):
    def __init__(self, shape, classes, *, cell: bool = False):
        super().__init__()
        kind = nn.GRUCell if cell else nn.LSTM
        self.inner = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
        self.layer, self.head = kind(5, 6), nn.Linear(6, classes)

    def forward(self, x):
        out = self.layer(self.inner(x))
        return self.head(out[0] if isinstance(out, tuple) else out)


def check(**options):
    name = f"{__name__}:net"
    return checking.check(name, (4,), 3, options=options, device="cpu")


def test_a_layer_that_cannot_be_lifted():
    found = check()
    rows = [
        (r["layer"], r["kind"], r["parameters"], r["path"]) for r in found["layers"]
    ]
    assert rows == [
        ("inner.0", "Linear", 25, "together"),
        ("inner.1", "ReLU", 0, "together"),
        ("layer", "LSTM", 4 * 6 * (5 + 6 + 2), "one client at a time"),
        ("head", "Linear", 21, "together"),
    ]
    assert found["parameters"] == sum(row[2] for row in rows)
    assert found["plans"] == ["threads", "loop"]
    assert "layer 'layer' (LSTM) is recurrent" in found["note"]
    assert list(found["milliseconds"]) == ["loop"] and found["milliseconds"]["loop"] > 0


def test_a_slow_layer_is_measured_by_both_plans():
    found = check(cell=True)
    assert [r["path"] for r in found["layers"] if r["why"]] == ["together, but slowly"]
    assert set(found["milliseconds"]) == {"loop", "vmap"}


def test_a_fast_network_has_no_note():
    found = checking.check("linear", (1, 4, 4), 0, device="cpu")
    assert found["note"] == "" and {r["path"] for r in found["layers"]} == {"together"}


def test_inputs_that_the_network_does_not_accept():
    with pytest.raises(Refusal, match="does not accept a batch of shape"):
        checking.check(f"{__name__}:net", (3,), 3, device="cpu")
