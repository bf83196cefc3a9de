"""Open a run from its folder: its tables, and its models as PyTorch modules.

Models are loaded when they are needed; tables are read without loading data or
networks.
"""

import contextlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from troth import files, lookup
from troth.config import reader
from troth.config.schema import Experiment
from troth.types import Refusal, Statistics

Table = dict[str, np.ndarray]
PREPARED = ("features.fill", "features.mean", "features.std")
"""Tensors in the file of a newcomer's model by which inputs are prepared."""


def read_experiment(path: Path) -> Experiment:
    """Read the experiment of a run; raise Refusal if the folder has none."""
    file = path / files.EXPERIMENT
    if not file.exists():
        raise Refusal(
            f"{path} is not the folder of a run (it has no {files.EXPERIMENT}); "
            "give the folder that troth run wrote"
        )
    return reader.from_dict(reader.read(file))


def rounds(file: Path) -> list[dict[str, Any]]:
    """Read the complete lines of `rounds.jsonl`; the last line may be incomplete."""
    every = [json.loads(line) for line in file.read_text("utf-8").split("\n")[:-1]]
    if not all(isinstance(r, dict) and isinstance(r["round"], int) for r in every):
        raise ValueError("a line is no round")
    return every


class Tail:
    """Reader of the rounds of a run in training, which reads each round once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._part, self._at = b"", 0

    @property
    def shortened(self) -> bool:
        """Whether the file became shorter, because the run was resumed."""
        with contextlib.suppress(OSError):
            return self._file.stat().st_size < self._at
        return False

    def read(self) -> list[dict[str, Any]]:
        """Return the rounds since the last call, or all if the file was shortened."""
        if self.shortened:
            self._part, self._at = b"", 0
        try:
            with self._file.open("rb") as journal:
                journal.seek(self._at)
                new = journal.read()
        except OSError:
            return []
        self._at += len(new)
        *lines, self._part = (self._part + new).split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):  # a line that Troth did not write
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("round"), int):
                    found.append(record)
        return found


class Run:
    """A run that is read from its folder, finished or not."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.experiment = e = read_experiment(self.path)
        self._held = lookup.held(e.data.name), lookup.held(e.model.name)

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        """Pickle only the folder's path, because other objects may not be picklable."""
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def finished(self) -> bool:
        """Whether the run has finished."""
        return (self.path / files.SUMMARY).exists()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Every metric of every score over the benign clients, and times."""
        found: dict[str, Any] = json.loads(self._file(files.SUMMARY).read_text("utf-8"))
        return found

    @cached_property
    def clients(self) -> dict[str, np.ndarray]:
        """The columns of `clients.csv`; NaN if a client has no value."""
        return files.read_csv(self._file(files.CLIENTS))

    @cached_property
    def rounds(self) -> list[dict[str, Any]]:
        """Every round as a dictionary: cohort, missing clients, evaluation and more."""
        return rounds(self.path / files.ROUNDS)

    def shared(self, client: int | None = None) -> nn.Module:
        """Return the shared model, which takes inputs in the units of the data set.

        Args:
            client: Client whose inputs the model will get. It is needed only if inputs
                are prepared by different statistics for each client.
        """
        return self.raw(self.network(), client)

    def network(self, tensors: dict[str, Tensor] | None = None) -> nn.Module:
        """Return the shared model, which takes prepared inputs, as in training.

        Args:
            tensors: Parameters and buffers of another model, by name. None means those
                of the shared model.
        """
        from troth.networks.build import network

        e, facts = self.experiment, self.experiment.resolved
        shape = tuple(facts["shape"])
        rows = np.zeros((1, *shape), dtype=np.float32)
        net = network(e, shape, facts["classes"], rows, facts["scale"], given=False)
        if tensors is None:
            tensors, _ = files.load(self._file(files.SHARED))
        state = net.state_dict()
        own = dict(net.named_parameters(remove_duplicate=False))
        for name, value in tensors.items():  # buffers may have any shape
            if name not in own:
                path, _, last = name.rpartition(".")
                setattr(net.get_submodule(path), last, value)
        net = net.to(next(t.dtype for t in tensors.values() if t.is_floating_point()))
        wanted = [name for name, value in state.items() if isinstance(value, Tensor)]
        net.load_state_dict({name: tensors[name] for name in wanted}, strict=False)
        return net.eval()

    def model(self, client: int) -> nn.Module:
        """Return the model with which a client predicts: personal, or else shared."""
        from troth.networks import task

        self.check(client)
        net = self.network()
        if (self.path / files.PERSONAL).exists():
            task.assign(net, files.load_model(self.path / files.PERSONAL, client))
        elif self.experiment.personalizer.name != "none":
            raise Refusal(
                f"{self.path} holds no personal models; "
                "run the experiment with output.personal = true"
            )
        return self.raw(net, client)

    def newcomer(self, file: str | Path) -> nn.Module:
        """Return a newcomer's model from a file that `troth personalize` wrote."""
        from troth.networks import layers

        try:
            tensors, facts = files.load(Path(file))
        except (OSError, SafetensorError) as error:
            raise Refusal(
                f"{file} cannot be read as a model ({error}); give a file that "
                "troth personalize --out wrote"
            ) from None
        mine = self.experiment.resolved["fingerprint"]
        if facts.get("run") != mine:
            raise Refusal(
                f"{file} is not a newcomer's model of the run in {self.path}; give a "
                f"file that came from: troth personalize {self.path} --out FILE"
            )
        parts = [tensors.pop(name) for name in PREPARED if name in tensors]
        net = self.network(tensors)
        return nn.Sequential(layers.Features(*parts), net).eval() if parts else net

    def check(self, client: int) -> None:
        """Raise Refusal if this run does not have the client."""
        n = self.experiment.resolved["clients"]
        if not 0 <= client < n:
            raise Refusal(
                f"there is no client {client}; this run has {n}, 0 to {n - 1}"
            )

    def raw(self, net: nn.Module, client: int | None) -> nn.Module:
        """Return a network for inputs in the units of the data set.

        The layer that prepares inputs, if any, is put in front.
        """
        from troth.data.preprocess import active
        from troth.networks import layers

        if client is not None:
            self.check(client)
        if not active(self.experiment.features):
            return net
        parts = [self._features[name] for name in ("fill", "mean", "std")]
        if parts[0].dim() > len(self.experiment.resolved["shape"]):
            if client is None:
                raise Refusal(
                    f"features '{self.experiment.features.name}' are each client's own;"
                    " name the client whose inputs they are: run.shared(client=0)"
                )
            parts = [part[client] for part in parts]
        return nn.Sequential(layers.Features(*parts), net).eval()

    @cached_property
    def _features(self) -> dict[str, Tensor]:
        return files.load(self._file(files.FEATURES))[0]

    def _file(self, name: str) -> Path:
        file = self.path / name
        if not file.exists():
            raise Refusal(
                f"{self.path} is not finished (it has no {name}); "
                f"continue it by: troth resume {self.path}"
            )
        return file

    def statistics(self) -> Statistics | None:
        """Return the statistics by which the inputs of all clients are prepared.

        Return None if they differ between clients.
        """
        found = self._features
        if found["mean"].dim() > len(self.experiment.resolved["shape"]):
            return None
        return Statistics(*(found[name].numpy() for name in Statistics._fields))

    def predict(self, client: int | str | Path, x: np.ndarray) -> np.ndarray:
        """Predict labels, or the values of a regression, with a client's model.

        Args:
            client: Id of a client, or the file of a newcomer's model.
            x: [m, ...] inputs in the units of the data set. NaN is a missing value, if
                the run fills in missing values.

        Returns:
            [m] predictions, or [m, labels] of 0 and 1 if an example may have several
            labels.
        """
        from troth.data import user_files

        user_files.fits(self.experiment, x)
        named = isinstance(client, str | Path)
        net = self.newcomer(client) if named else self.model(client)  # type: ignore[arg-type]
        found, facts = [], self.experiment.resolved
        with torch.no_grad():
            for first in range(0, len(x), 1024):
                found.append(net(torch.from_numpy(x[first : first + 1024])))
        outputs = torch.cat(found)
        if facts["classes"] == 0:
            return outputs[:, 0].numpy()
        if facts.get("multi_label"):
            return (outputs > 0).long().numpy()
        if outputs.shape[1] == 1:
            return (outputs[:, 0] > 0).long().numpy()
        return outputs.argmax(dim=1).numpy()


def judged(clients: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return a mask of the clients that the summary averages over.

    These are the benign clients that could take part in training.
    """
    late = clients.get("newcomer", np.zeros_like(clients["malicious"]))
    return np.asarray((clients["malicious"] == 0) & (late == 0))


def load(path: str | Path, *, data: Any = None, model: Any = None) -> Run:
    """Open the folder of a run, finished or not.

    Args:
        path: Folder of a run, as `run` or `troth run` wrote it. For a grid, give the
            folder of one of its runs.
        data: Python object with the data of the run, if it was trained with one and an
            audit needs the data.
        model: Python object with the network of the run, if it was trained with one and
            models are needed.

    Returns:
        The run, with its `experiment`, its tables (`summary`, `clients`, `rounds`) and
        its models (`shared()`, `model(client)`, `predict(client, x)`). Tables and
        models are read when they are needed.

    Raises:
        Refusal: If the folder is not that of a run, or the run was trained with other
            objects.

    >>> import tempfile, troth, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> partition = {"name": "iid", "clients": 4}
    >>> _ = troth.run({"partition": partition, "train": {"rounds": 1}},
    ...               settings=["engine.how=loop"], out=f"{folder.name}/run")
    >>> one = troth.load(f"{folder.name}/run")
    >>> one.finished, len(one.rounds), one.predict(0, np.zeros((2, 1, 8, 8))).shape
    (True, 1, (2,))
    >>> folder.cleanup()

    Read on: `docs/reference/run.md` lists the files of a run.
    """
    from troth.runs import given

    objects = given.give(data, model)
    given.check_same(objects, [read_experiment(Path(path))], path)
    return Run(path)
