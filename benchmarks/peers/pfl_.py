"""pfl-research's own simulation, in one process or, with torchrun, in several."""

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops.pytorch_ops import get_default_device
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn
from workloads import WORKLOADS, data, now

from networks import NETWORKS


class Clock(TrainingProcessCallback):
    """Notes when every round ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Go on."""
        self.ends.append(now())
        return False, Metrics()


def seconds(name: str, device: str = "auto", precision: str = "float32") -> list[float]:
    """Return when every round ended."""
    work = WORKLOADS[name]
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    x, y = data(name)

    class Network(NETWORKS[work.network]):
        def loss(self, x, y, eval=False):
            self.train(not eval)
            return nn.functional.cross_entropy(self(x), y)

        def metrics(self, x, y, eval=True):
            return {}

    network = Network().to(get_default_device())
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    model = PyTorchModel(network, torch.optim.SGD, optimizer)
    ids = list(range(work.clients))

    def dataset(user: int) -> PyTorchTensorDataset:
        tensors = [torch.from_numpy(x[user]), torch.from_numpy(y[user])]
        tensors = [t.to(get_default_device()) for t in tensors]
        return PyTorchTensorDataset(tensors=tensors, user_id=str(user))

    known = {user: dataset(user) for user in ids}
    sampler = get_user_sampler("minimize_reuse", ids)
    training = FederatedDataset(known.__getitem__, sampler)
    np.random.seed(0)
    clock = Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(work.rounds, 10**6, work.clients, 0),
        SimulatedBackend(training_data=training, val_data=None),
        model,
        NNTrainHyperParams(
            local_batch_size=work.batch,
            local_num_epochs=1,
            local_learning_rate=work.lr,
        ),
        NNEvalHyperParams(local_batch_size=work.batch),
        [clock],
        send_metrics_to_platform=False,
    )
    return clock.ends
