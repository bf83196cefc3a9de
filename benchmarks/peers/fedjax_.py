"""FedJAX's own federated averaging, `for_each_client` compiled by jit."""

import jax
import jax.numpy as jnp
import numpy as np

for _name in ("tree_map", "tree_leaves"):  # FedJAX 0.0.17 calls them by older names
    if not hasattr(jax, _name):
        setattr(jax, _name, getattr(jax.tree_util, _name))

import fedjax  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402
from workloads import WORKLOADS, data, now  # noqa: E402

LAYERS = {  # channels of convolutions and their width, inputs of dense layers
    "W1": ([], 5, "SAME", [784, 10]),
    "W2": ([1, 32, 64], 5, "SAME", [3136, 1024, 10]),
    "W3": ([3, 32, 64], 3, "VALID", [12544, 128, 10]),
}


def pooled(name: str) -> list[bool]:
    """Return after which convolutions the network pools."""
    return {"W1": [], "W2": [True, True], "W3": [False, True]}[name]


def first(name: str) -> list[jax.Array]:
    """Return the first parameters: weights and biases by turns."""
    channels, width, _, dense = LAYERS[name]
    key, made = jax.random.PRNGKey(0), []
    sizes = [(width, width, a, b) for a, b in zip(channels, channels[1:], strict=False)]
    sizes += list(zip(dense, dense[1:], strict=False))
    for size in sizes:
        key, own = jax.random.split(key)
        bound = np.prod(size[:-1]) ** -0.5
        made.append(jax.random.uniform(own, size, minval=-bound, maxval=bound))
        made.append(jnp.zeros(size[-1]))
    return made


def forward(name: str, parameters: list[jax.Array], x: jax.Array) -> jax.Array:
    """Return the outputs of the network; pictures have their channels last."""
    _, _, padding, _ = LAYERS[name]
    rest = list(parameters)
    for pool in pooled(name):
        weight, bias = rest.pop(0), rest.pop(0)
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, weight, (1, 1), padding, dimension_numbers=dims
        )
        x = jax.nn.relu(x + bias)
        if pool:
            window = (1, 2, 2, 1)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    x = x.reshape(len(x), -1)
    while rest:
        weight, bias = rest.pop(0), rest.pop(0)
        x = x @ weight + bias
        x = jax.nn.relu(x) if rest else x
    return x


def seconds(name: str, device: str = "auto", precision: str = "float32") -> list[float]:
    """Return when every round ended."""
    work = WORKLOADS[name]
    jax.config.update("jax_default_matmul_precision", precision)
    x, y = data(name)
    if len(work.shape) == 3:
        x = np.ascontiguousarray(np.moveaxis(x, 2, -1))

    def loss(parameters, batch, rng):
        outputs = jax.nn.log_softmax(forward(work.network, parameters, batch["x"]))
        return -outputs[jnp.arange(len(outputs)), batch["y"]].mean()

    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(work.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=1),
    )
    clients = [
        fedjax.ClientDataset({"x": a, "y": b}) for a, b in zip(x, y, strict=True)
    ]
    state, ends = algorithm.init(first(work.network)), []
    keys = jax.random.split(jax.random.PRNGKey(1), work.rounds * work.clients)
    for r in range(work.rounds):
        own = keys[r * work.clients : (r + 1) * work.clients]
        cohort = [
            (k, c, key) for k, (c, key) in enumerate(zip(clients, own, strict=True))
        ]
        state, _ = algorithm.apply(state, cohort)
        jax.block_until_ready(state.params)
        ends.append(now())
    return ends
