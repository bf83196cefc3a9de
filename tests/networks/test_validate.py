import pytest
import torch
from torch import Tensor, nn

from troth import lookup
from troth.networks.layers import Normalize
from troth.networks.validate import check
from troth.types import Refusal

X = torch.randn(4, 5)


def refusal(module, x=X):
    with pytest.raises(Refusal) as caught:
        check(module, x)
    text = str(caught.value)
    assert "\n" not in text
    return text


class Item(nn.Module):
    def forward(self, x):
        return x / x.abs().max().item()


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Mask(nn.Module):
    def forward(self, x):
        return x + x[x > 0].sum()


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


class Numpy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.detach().numpy())


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


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(5, 3)

    def forward(self, x):
        return self.cell(x)[0]


@pytest.mark.parametrize("name", lookup.names("model"))
def test_every_model_passes_on_bytes_and_is_left_alone(name):
    for classes in [2] if name == "svm" else [2, 0]:
        shape = (1, 32, 32) if name == "vgg13_bn" else (1, 8, 8)
        model = lookup.find("model", name)(shape, classes)
        net = nn.Sequential(Normalize(0.0, 255.0), model)
        before = {n: t.clone() for n, t in net.state_dict().items()}
        check(net, torch.zeros(2, *shape, dtype=torch.uint8))
        assert all(torch.equal(before[n], t) for n, t in net.state_dict().items())


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Item(), r"\.item\(\)"),
        (Branch(), r"decides in Python"),
        (Mask(), r"depends on values"),
        (Noise(), r"random numbers"),
        (Numpy(), r"leaves torch"),
        (Adds(), r"its own buffers"),
        (Replaces(), r"its own buffers"),
        (nn.BatchNorm1d(5, momentum=None), r"set a momentum"),
        (nn.BatchNorm1d(5, track_running_stats=False), r"mixes clients"),
        (nn.InstanceNorm1d(4, track_running_stats=True), r"in a way of its own"),
        (nn.AlphaDropout(0.1), r"use nn\.Dropout"),
        (Own(), r"its own forward"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_names_the_layer_and_the_reason(bad, words):
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True), bad, nn.Linear(5, 2))
    with pytest.raises(Refusal, match=rf"layer '2' \({type(bad).__name__}\).*{words}"):
        check(net, X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"momentum": 1.5}, r"momentum = 1\.5, set one of 0 to 1"),
        ({"momentum": -0.1}, r"momentum = -0\.1, set one of 0 to 1"),
        ({"eps": 0.0}, "eps = 0, set a positive one"),
        ({"eps": -1e-5}, "eps = -1e-05, set a positive one"),
    ],
)
def test_numbers_that_spoil_a_variance(options, words):
    net = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5, **options), nn.Linear(5, 2))
    with pytest.raises(Refusal, match=rf"layer '1' .*{words}"):
        check(net, X)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers(kind):
    assert f"layer 'cell' ({kind.__name__})" in refusal(Recurrent(kind))


def test_lists_all_in_order_and_only_the_innermost():
    inner = nn.Sequential(nn.Linear(5, 5), Branch())
    net = nn.Sequential(
        nn.Linear(5, 5),
        nn.BatchNorm1d(5, momentum=None),
        inner,
        nn.AlphaDropout(0.2),
        Own(),
    )
    text = refusal(net)
    places = [text.index(f"layer '{n}' (") for n in ("1", "2.1", "3", "4")]
    assert places == sorted(places)
    assert text.count("layer '") == 4 and "itself" not in text


def test_the_model_itself():
    assert "the model itself (Own) fails in its own forward" in refusal(Own())


def test_what_can_be_lifted_passes():
    image = torch.randn(4, 2, 8, 8)
    check(
        nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.BatchNorm2d(4),
            nn.GroupNorm(2, 4),
            nn.SiLU(inplace=True),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.LayerNorm(16),
            nn.Dropout(0.5),
            nn.Linear(16, 3),
        ),
        image,
    )
    check(
        nn.Sequential(
            nn.Embedding(9, 4),
            nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        ),
        torch.randint(0, 9, (4, 6)),
    )


def test_nothing_is_drawn_and_nothing_is_moved():
    net = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
    before = torch.random.get_rng_state()
    check(net, X)
    assert torch.equal(torch.random.get_rng_state(), before)
    norm = net[1]
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None
    assert not norm.running_mean.any()


def test_refuses_what_has_nothing_to_train():
    assert "0 trainable parameters" in refusal(nn.ReLU())
    assert "0 trainable" in refusal(nn.Linear(5, 2).requires_grad_(False))


def test_refuses_inputs_that_do_not_fit():
    text = refusal(nn.Linear(6, 2))
    assert "shape [4, 5]" in text and "cannot be multiplied" in text
    assert "type uint8" in refusal(nn.Linear(5, 2), X.to(torch.uint8))


def test_refuses_outputs_that_are_no_rows_of_floats():
    flat = nn.Sequential(nn.Linear(5, 5), nn.Flatten(0))
    assert "returned shape [20] of float32" in refusal(flat)
    first = nn.Sequential(nn.Linear(5, 5), Pair())
    assert "returned tuple" in refusal(first)
    assert "of int64" in refusal(nn.Sequential(nn.Linear(5, 5), Label()))


class Pair(nn.Module):
    def forward(self, x):
        return x, x


class Label(nn.Module):
    def forward(self, x):
        return x.argmax(1)


def test_refuses_what_cannot_be_copied():
    net = nn.Linear(5, 2)
    net.cache = net.weight * 2
    assert "cannot be copied" in refusal(net)
