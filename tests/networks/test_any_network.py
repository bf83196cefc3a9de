"""Any network of torch: every plan of the engine gives the numbers of a plain loop."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

import troth
from troth import build
from troth.config import reader
from troth.engine.local_training import Plan
from troth.networks import task
from troth.types import Arrays, Broadcast, Data, Notice, Split

SIZES, BATCH, STEPS, LR = (5, 2, 6), 4, 3, 0.1
PLANS = [Plan("vmap", 3), Plan("vmap", 2), Plan("threads", 1, 2)]


class Last(nn.Module):
    """Whatever a layer returns, as [b, 3]: the head of a network."""

    def __init__(self, layer, width, turned=False):
        super().__init__()
        self.layer, self.head, self.turned = layer, nn.Linear(width, 3), turned

    def forward(self, x):
        x = x.transpose(0, 1) if self.turned else x
        out = self.layer(x)
        while isinstance(out, tuple):
            out = out[0]
        out = out.transpose(0, 1) if self.turned else out
        out = out.flatten(1)
        short = (0, max(0, self.head.in_features - out.shape[1]))
        out = nn.functional.pad(out[:, : self.head.in_features], short)
        return self.head(out)


class Attention(nn.Module):
    def __init__(self, width, heads, drop, causal):
        super().__init__()
        self.parts, self.heads = nn.Linear(width, 3 * width), heads
        self.drop, self.causal = drop, causal

    def forward(self, x):
        q, k, v = (
            t.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for t in self.parts(x).chunk(3, 2)
        )
        p = self.drop if self.training else 0.0
        attend = nn.functional.scaled_dot_product_attention
        out = attend(q, k, v, dropout_p=p, is_causal=self.causal)
        out = nn.functional.dropout(out, 0.3, self.training)
        return out.transpose(1, 2).flatten(2)


class Self(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=bool(self.num_heads % 2))


class Words(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.words = kind(7, width)

    def forward(self, x):
        return self.words((x.abs() * 3).long() % 7)


def engine(net, inputs, plan, precision="float64", labels=3):
    """An engine of three clients with 5, 2 and 6 random examples."""
    torch.manual_seed(1)
    dtype = torch.float64 if precision == "float64" else torch.float32
    x = torch.randn(sum(SIZES), *inputs).to(dtype)
    y = torch.randint(0, labels, (len(x),))
    size = torch.tensor(SIZES)
    split = Split(torch.arange(len(x)), y, size.cumsum(0) - size, size)
    tree = {"train": {"steps": STEPS, "batch": BATCH, "lr": LR, "precision": precision}}
    data, arrays = Data(x, split, split, split), Arrays(np.zeros(0), np.zeros(0), 3)
    return build.make_engine(
        reader.from_dict(tree), net.to(dtype), data, arrays, len(SIZES), plan
    )


def update(made):
    """What the clients send after a round, and what they then predict."""
    w = task.flatten(made.objective.net)
    zero = torch.zeros((), dtype=torch.long)
    sent = Broadcast(w, w.new_zeros(0), w.new_ones(()), zero)
    ids = np.arange(len(SIZES))
    rows = made.start(w).expand(len(SIZES), -1)
    messages, _ = made.run("local", sent, rows, ids, 0)
    models = (w + messages.update).detach()
    return models, made.predict(models, made.feed.whole(ids, made.feed.data.test).x)


def agree(net, inputs, precision="float64", atol=1e-10):
    """Compare every plan that the network allows with the loop."""
    first = engine(net, inputs, Plan("loop", 1), precision)
    models, outputs = update(first)
    assert not torch.equal(models[0], models[1])
    for plan in PLANS:
        if plan.how not in first.ways:
            continue
        ours, predicted = update(engine(net, inputs, plan, precision))
        assert float((ours - models).abs().max()) <= atol, plan
        assert float((predicted - outputs).abs().max()) <= 10 * atol, plan
    return first


@st.composite
def convolutions(draw):
    axes, transposed = draw(st.integers(1, 3)), draw(st.booleans())
    few = st.tuples(*[st.integers(1, 3)] * axes)
    gap, groups = draw(st.tuples(*[st.integers(1, 2)] * axes)), draw(st.integers(1, 2))
    kernel, step = draw(few), draw(few)
    around = draw(st.integers(0, 1))
    if not transposed:
        around = draw(st.sampled_from(["valid", "same", around]))
    step = (1,) * axes if around == "same" else step
    size = [d * k + 2 for d, k in zip(gap, kernel, strict=True)]
    kinds = [nn.Conv1d, nn.Conv2d, nn.Conv3d]
    if transposed:
        kinds = [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d]
    how = {"stride": step, "padding": around, "groups": groups, "dilation": gap}
    layer = kinds[axes - 1](2 * groups, 2 * groups, kernel, **how)
    return layer, (2 * groups, *size)


@st.composite
def others(draw):
    b, n, h = (draw(st.integers(1, 3)) for _ in range(3))
    c, drop = 2 * n, draw(st.sampled_from([0.0, 0.4]))
    sequence, image = (b + 1, 4), (c, h + 2, 4)
    cells = {"num_layers": n, "bidirectional": bool(b % 2), "batch_first": True}
    recurrent = draw(st.sampled_from([nn.RNN, nn.GRU, nn.LSTM]))
    encoder = {"dropout": drop, "norm_first": bool(b % 2), "batch_first": True}
    layers = [
        (nn.BatchNorm2d(c), image),
        (nn.GroupNorm(n, c), image),
        (nn.InstanceNorm2d(c, affine=True), image),
        (nn.LayerNorm([4]), sequence),
        (nn.RMSNorm([4]), sequence),
        (nn.MaxPool2d(2, draw(st.integers(1, 2))), image),
        (nn.AvgPool2d(2, 1), image),
        (nn.AdaptiveAvgPool2d(h), image),
        (nn.AdaptiveMaxPool2d(h), image),
        (nn.LPPool2d(2, 2), image),
        (nn.Dropout(drop), sequence),
        (nn.Dropout2d(drop), image),
        (nn.AlphaDropout(drop), sequence),
        (Attention(4, 2, drop, bool(b % 2)), sequence),
        (Self(4, draw(st.integers(1, 2)), drop, batch_first=True), sequence),
        (nn.TransformerEncoderLayer(4, 2, 8, **encoder), sequence),
        (nn.PReLU(), image),
        (nn.Bilinear(4, 4, 2), (4,)),
        (Words(nn.Embedding, n), (b + 1,)),
        (Words(nn.EmbeddingBag, n), (b + 1,)),
        (recurrent(4, n + 1, **cells), sequence),
        (nn.LSTM(4, 2, 2, dropout=0.3, batch_first=True), sequence),
        (draw(st.sampled_from([nn.RNNCell, nn.GRUCell, nn.LSTMCell]))(4, n), (4,)),
    ]
    layer, shape = draw(st.sampled_from(layers))
    return (nn.Sequential(layer) if len(shape) < 3 else layer), shape


class Twice(nn.Module):
    """A layer of two inputs, given one."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, x)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(convolutions())
@pytest.mark.filterwarnings("ignore:Using padding")
def test_convolutions(given):
    layer, inputs = given
    torch.manual_seed(0)
    agree(Last(layer, 5), inputs)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(others())
def test_other_layers(given):
    layer, inputs = given
    torch.manual_seed(0)
    if isinstance(layer[0] if isinstance(layer, nn.Sequential) else layer, nn.Bilinear):
        layer = Twice(layer[0])
    agree(Last(layer, 5), inputs)


def test_float32():
    layers = nn.Sequential(nn.Conv2d(2, 4, 3, 2, "valid"), nn.ReLU(), nn.Dropout(0.3))
    agree(Last(layers, 5), (2, 7, 7), "float32", 1e-5)
    agree(Last(nn.LSTM(4, 3, 2, batch_first=True), 5), (3, 4), "float32", 1e-5)


# whole federations


class lstm(nn.Module):
    """The rows of an image, one after another."""

    def __init__(self, shape, classes, *, cell: bool = False):
        super().__init__()
        self.layer = nn.LSTMCell(8, 24) if cell else nn.LSTM(8, 24, batch_first=True)
        self.head = nn.LazyLinear(classes)

    def forward(self, x):
        rows = x.flatten(1, 2)
        if isinstance(self.layer, nn.LSTM):
            return self.head(self.layer(rows)[0][:, -1])
        state = None
        for row in rows.unbind(1):
            state = self.layer(row, state)
        return self.head(state[0])


def encoder(shape, classes):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)  # dropout 0.1
    return nn.Sequential(nn.Flatten(1, 2), layer, nn.Flatten(), nn.Linear(64, classes))


class noisy(nn.Module):
    """Draws from torch's generator and decides in Python."""

    def __init__(self, shape, classes):
        super().__init__()
        self.last = nn.Linear(64, classes)

    def forward(self, x):
        x = x.flatten(1)
        if self.training and x.mean() > 0:
            x = x + 0.1 * torch.randn_like(x)
        return self.last(x)


def federation(model, rounds=40, lr=0.5, **engine):
    return {
        "data": "digits",
        "partition": {"name": "iid", "clients": 4},
        "model": {"name": f"{__name__}:{model}"},
        "train": {"rounds": rounds, "steps": 8, "batch": 16, "lr": lr},
        "engine": {"device": "cpu"} | engine,
    }


def accuracy(run):
    return run.summary["shared"]["accuracy_mean"]


@pytest.mark.parametrize(("model", "lr"), [("lstm", 0.5), ("encoder", 0.1)])
def test_a_federation_trains(model, lr, tmp_path):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        (run,) = troth.run(federation(model, 30, lr), out=tmp_path / "run")
    assert accuracy(run) > 0.6
    told = [str(w.message) for w in heard if w.category is Notice]
    assert len(told) == (model == "lstm") == len(heard)
    if told:
        assert "one at a time, because layer 'layer' (LSTM) is rec" in told[0]
        assert " ms here, and all steps " in told[0]
        assert {w.filename for w in heard} == {__file__}  # the user's line is shown
    x = np.zeros((2, 1, 8, 8))
    assert run.predict(0, x).shape == (2,)


@pytest.mark.filterwarnings("ignore::troth.types.Notice")
@pytest.mark.parametrize("model", ["lstm", "noisy"])
def test_resumed_it_gives_the_same_bytes(model, tmp_path):
    def stop(p):
        if p.done == 2:
            raise KeyboardInterrupt

    tree = federation(model, 4) | {"checkpoint": {"every": 1}}
    (whole,) = troth.run(tree, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        troth.run(tree, out=tmp_path / "part", watch=stop)
    torch.randn(3)  # somebody else's draws change nothing
    (again,) = troth.resume(tmp_path / "part")
    files = [run.path / "shared.safetensors" for run in (whole, again)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_plan_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(troth.Refusal, match=r"'vmap' does not suit .*'layer' \(LS"):
        troth.run(federation("lstm", how="vmap"), out=tmp_path / "run")


@pytest.mark.filterwarnings("ignore::troth.types.Notice")
def test_what_cannot_step_together_is_trained_run_by_run(tmp_path):
    tree = federation("lstm", 2) | {"grid": {"seed": [0, 1]}}
    runs = troth.run(tree, out=tmp_path / "both", apart=False)
    (one,) = troth.run(federation("lstm", 2) | {"seed": 1}, out=tmp_path / "one")
    assert accuracy(runs[1]) == accuracy(one)


# Hugging Face


def bert(shape, classes):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=17,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        num_labels=classes,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    net = transformers.BertForSequenceClassification(config)
    net.register_forward_pre_hook(lambda module, x: (x[0].flatten(1).long(),))
    return net


@pytest.mark.parametrize(
    "how",
    ["loop", pytest.param("vmap", marks=pytest.mark.slow("tracing BERT takes 30 s"))],
)
def test_a_hugging_face_model_gives_the_numbers_of_a_plain_loop(how, tmp_path):
    """FedAvg of BERT with full batches, written out."""
    pytest.importorskip("transformers")
    tree = federation("bert", 3, how=how)
    tree["model"]["normalize"] = "none"
    tree["data"] = {"name": "digits"}
    tree["train"] |= {"batch": 0, "steps": 2, "lr": 0.1, "precision": "float64"}
    e = reader.from_dict(tree)
    built = build.build(e)
    net, data = built.network, built.data
    w = {name: p.detach().clone() for name, p in net.named_parameters()}

    def loss(w, x, y):
        logits = functional_call(net, w, (x,))
        return nn.functional.cross_entropy(logits, y)

    for _ in range(3):
        replies = []
        for first, size in zip(data.train.start, data.train.size, strict=True):
            own = slice(int(first), int(first + size))
            x, y = data.x[data.train.row[own]], data.train.y[own]
            v = {name: t.clone().requires_grad_() for name, t in w.items()}
            for _ in range(2):
                g = torch.autograd.grad(loss(v, x, y), list(v.values()))
                pairs = zip(v.items(), g, strict=True)
                v = {n: (t - 0.1 * s).detach().requires_grad_() for (n, t), s in pairs}
            replies.append(v)
        w = {n: sum(v[n].detach() for v in replies) / len(replies) for n in w}
    plain = torch.cat([t.reshape(-1) for t in w.values()])
    for _ in built.federation.train():
        pass
    assert float((built.federation.broadcast.w - plain).abs().max()) < 1e-10
