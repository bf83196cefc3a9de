import re

import pytest
import torch
from torch import Tensor, nn

from troth import lookup
from troth.networks.layers import Normalize
from troth.networks.validate import check, remaining, sentence
from troth.types import Refusal

X = torch.randn(4, 5)
NARROW = {"resnet18": {"width": 2}, "vgg13_bn": {"width": 2, "widths": [6]}}


def refusal(module, x=X):
    with pytest.raises(Refusal) as caught:
        check(module, x)
    text = str(caught.value)
    assert "\n" not in text
    return text


class Does(nn.Module):
    """A layer that is a function."""

    def __init__(self, forward):
        super().__init__()
        self.forward = forward


class Adds(nn.Module):
    """Remembers, in place."""

    seen: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        self.seen += x.detach().mean(0)
        return x - self.seen


class Replaces(Adds):
    """Remembers, by another tensor."""

    def forward(self, x):
        self.seen = self.seen + x.detach().mean(0)
        return x - self.seen


class Own(nn.Module):
    """Its layers can be lifted, its own forward cannot."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 5)

    def forward(self, x):
        h = self.inner(x)
        return h if h.mean() > 0 else 2 * h


@pytest.mark.parametrize("name", lookup.names("model"))
def test_every_model_passes_on_bytes_and_is_left_alone(name):
    for classes in [2] if name == "svm" else [2, 0]:
        shape = (1, 32, 32) if name == "vgg13_bn" else (1, 8, 8)
        model = lookup.find("model", name)(shape, classes, **NARROW.get(name, {}))
        net = nn.Sequential(Normalize(0.0, 255.0), model)
        before = {n: t.clone() for n, t in net.state_dict().items()}
        check(net, torch.zeros(2, *shape, dtype=torch.uint8))
        assert all(torch.equal(before[n], t) for n, t in net.state_dict().items())


LOOP, APART = ("loop",), ("threads", "loop")


class Old(torch.autograd.Function):
    """A custom gradient in torch's older form."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 3 * g


@pytest.mark.parametrize(
    ("bad", "plans", "words"),
    [
        (Does(lambda x: x / x.abs().max().item()), APART, r"\.item\(\)"),
        (Does(lambda x: x if x.sum() > 0 else -x), APART, r"decides in Python"),
        (Does(lambda x: x + x[x > 0].sum()), APART, r"depends on values"),
        (Does(lambda x: x + torch.randn_like(x)), LOOP, r"random numbers"),
        (Does(lambda x: x + torch.from_numpy(x.detach().numpy())), APART, "leaves"),
        (Does(Old.apply), APART, "custom gradient without setup_context"),
        (nn.AlphaDropout(0.1), LOOP, r"random numbers"),
        (Own(), APART, r"its own forward"),
    ],
)
def test_names_the_layer_the_reason_and_the_plans_that_remain(bad, plans, words):
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True), bad, nn.Linear(5, 2))
    (found,) = check(net, X)
    assert (found.layer, found.kind, found.plans) == ("2", type(bad).__name__, plans)
    assert re.search(words, found.why) and "\n" not in str(found)
    assert str(found).startswith(f"layer '2' ({found.kind}) ")
    assert sentence([found]).startswith("clients are trained one at a time, because")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Adds(), r"its own buffers"),
        (Replaces(), r"its own buffers"),
        (nn.BatchNorm1d(5, momentum=None), r"its own buffers"),
        (nn.InstanceNorm1d(4, track_running_stats=True), r"its own buffers"),
        (nn.BatchNorm1d(5, track_running_stats=False), r"depends on the other exam"),
        (nn.BatchNorm1d(5, momentum=1.5), r"momentum = 1\.5; set one of 0 to 1"),
        (nn.BatchNorm1d(5, eps=0.0), "eps = 0; set a positive one"),
    ],
)
def test_refuses_what_no_client_can_own(bad, words):
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), bad, nn.Linear(5, 2))
    assert re.search(rf"layer '2' \(.*{words}", refusal(net))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.cell = kind(5, 3, **options)

    def forward(self, x):
        found = self.cell(x)
        return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU, nn.LSTMCell])
def test_recurrent_layers(kind):
    (found,) = check(Recurrent(kind), X)
    assert (found.layer, found.kind, found.plans) == ("cell", kind.__name__, APART)


def test_layers_that_draw_leave_the_loop_alone():
    (found,) = check(Recurrent(nn.LSTM, num_layers=2, dropout=0.5), X)
    assert found.plans == remaining([found]) == LOOP


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.RNNCell])
def test_a_slow_operation_is_reported_and_rules_nothing_out(kind):
    (found,) = check(Recurrent(kind), X)
    assert re.search("calls (gru|rnn_tanh)_cell, which torch computes", found.why)
    assert remaining([found]) == ("vmap", "compiled", "threads", "loop")
    assert sentence([found]).startswith("clients are trained together, but slowly")


def test_lists_all_in_order_and_only_the_innermost():
    inner = nn.Sequential(nn.Linear(5, 5), Does(lambda x: x if x.sum() > 0 else -x))
    net = nn.Sequential(nn.Linear(5, 5), inner, nn.AlphaDropout(0.2), Own())
    assert [o.layer for o in check(net, X)] == ["1.1", "2", "3"]
    (own,) = check(Own(), X)
    assert str(own).startswith("the model (Own) fails in its own forward")


class Trains(Adds):
    """Remembers, and has a parameter."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        return super().forward(x) + self.shift


def test_layers_are_named_as_in_the_users_model():
    """The normalization that is put in front of a model is in no name."""

    def behind(model):
        return nn.Sequential(Normalize(torch.zeros(()), torch.ones(())), model)

    (own,) = check(behind(Own()), X)
    assert str(own).startswith("the model (Own) fails in its own forward")
    net = nn.Sequential(nn.Linear(5, 5), Does(lambda x: x if x.sum() > 0 else -x))
    (inner,) = check(behind(net), X)
    assert str(inner).startswith("layer '1' (Does) decides in Python")
    for model, words in (
        (nn.BatchNorm1d(5, momentum=2.0), "the model (BatchNorm) has momentum = 2"),
        (Trains(), "the model (Trains) changes its own buffers"),
        (nn.Sequential(Trains()), "layer '0' (Trains) changes its own buffers"),
        (nn.Linear(4, 3), "the model (Linear) does not accept a batch"),
    ):
        assert refusal(behind(model)).startswith(words)


def test_what_can_be_lifted_passes():
    layers = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4)]
    layers += [nn.SiLU(inplace=True), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    layers += [nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 3)]
    assert check(nn.Sequential(*layers), torch.randn(4, 2, 8, 8)) == ()
    encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    words = torch.randint(0, 9, (4, 6))
    assert check(nn.Sequential(nn.Embedding(9, 4), encoder), words) == ()


def test_nothing_is_drawn_and_nothing_is_moved():
    net = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
    before = torch.random.get_rng_state()
    check(net, X)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not net[1].running_mean.any()


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (nn.ReLU(), "0 trainable parameters"),
        (nn.Linear(5, 2).requires_grad_(False), "0 trainable"),
        (nn.Linear(6, 2), "shape [4, 5]"),
        (nn.Linear(6, 2), "cannot be multiplied"),
        (nn.Sequential(nn.Linear(5, 5), nn.Flatten(0)), "returned shape [20] of float"),
        (nn.Sequential(nn.Linear(5, 5), Does(lambda x: (x, x))), "returned tuple"),
        (nn.Sequential(nn.Linear(5, 5), Does(lambda x: x.argmax(1))), "of int64"),
        (nn.Sequential(nn.Linear(5, 5), Does(lambda x: x.detach())), "no gradient"),
        (nn.Sequential(nn.Embedding(9, 2), nn.Flatten()), "write x.long() in its"),
    ],
)
def test_refuses_what_is_no_network_for_these_inputs(net, words):
    assert words in refusal(net)


def test_refuses_inputs_of_bytes_and_what_cannot_be_copied():
    net = nn.Linear(5, 2)
    assert "type uint8" in refusal(net, X.to(torch.uint8))
    net.cache = net.weight * 2
    assert "cannot be copied" in refusal(net)
