import pytest
import torch
from torch import Tensor, nn

from troth import lookup
from troth.networks.layers import Normalize
from troth.networks.validate import check
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


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Does(lambda x: x / x.abs().max().item()), r"\.item\(\)"),
        (Does(lambda x: x if x.sum() > 0 else -x), r"decides in Python"),
        (Does(lambda x: x + x[x > 0].sum()), r"depends on values"),
        (Does(lambda x: x + torch.randn_like(x)), r"random numbers"),
        (Does(lambda x: x + torch.from_numpy(x.detach().numpy())), r"leaves torch"),
        (Adds(), r"its own buffers"),
        (Replaces(), r"its own buffers"),
        (nn.BatchNorm1d(5, momentum=None), r"set a momentum"),
        (nn.BatchNorm1d(5, track_running_stats=False), r"mixes clients"),
        (nn.BatchNorm1d(5, momentum=1.5), r"momentum = 1\.5, set one of 0 to 1"),
        (nn.BatchNorm1d(5, eps=0.0), "eps = 0, set a positive one"),
        (nn.InstanceNorm1d(4, track_running_stats=True), r"in a way of its own"),
        (nn.AlphaDropout(0.1), r"use nn\.Dropout"),
        (Own(), r"its own forward"),
    ],
)
def test_names_the_layer_and_the_reason(bad, words):
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True), bad, nn.Linear(5, 2))
    adapted = " = " in words  # and of any shape, before its numbers are looked at
    name = "BatchNorm" if adapted else type(bad).__name__
    with pytest.raises(Refusal, match=rf"layer '2' \({name}\).*{words}"):
        check(net, X)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(5, 3)

    def forward(self, x):
        return self.cell(x)[0]


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers(kind):
    assert f"layer 'cell' ({kind.__name__})" in refusal(Recurrent(kind))


def test_lists_all_in_order_and_only_the_innermost():
    inner = nn.Sequential(nn.Linear(5, 5), Does(lambda x: x if x.sum() > 0 else -x))
    norm = nn.BatchNorm1d(5, momentum=None)
    net = nn.Sequential(nn.Linear(5, 5), norm, inner, nn.AlphaDropout(0.2), Own())
    text = refusal(net)
    places = [text.index(f"layer '{n}' (") for n in ("1", "2.1", "3", "4")]
    assert places == sorted(places)
    assert text.count("layer '") == 4 and "itself" not in text
    assert "the model itself (Own) fails in its own forward" in refusal(Own())


def test_what_can_be_lifted_passes():
    layers = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4)]
    layers += [nn.SiLU(inplace=True), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    layers += [nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 3)]
    check(nn.Sequential(*layers), torch.randn(4, 2, 8, 8))
    encoder = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    check(nn.Sequential(nn.Embedding(9, 4), encoder), torch.randint(0, 9, (4, 6)))


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
    ],
)
def test_refuses_what_is_no_network_for_these_inputs(net, words):
    assert words in refusal(net)


def test_refuses_inputs_of_bytes_and_what_cannot_be_copied():
    net = nn.Linear(5, 2)
    assert "type uint8" in refusal(net, X.to(torch.uint8))
    net.cache = net.weight * 2
    assert "cannot be copied" in refusal(net)
