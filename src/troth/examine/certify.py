"""Certify the models of a run on each client's test data."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from troth import build, devices, seeding
from troth import files as folder
from troth.certificates import certify as certifier
from troth.certificates import curves
from troth.certificates.ledger import Ledger, Row
from troth.certificates.record import fingerprint, matching
from troth.certificates.sampling import Tiles
from troth.certificates.smoothing import Smoothing
from troth.data import load
from troth.networks import flat
from troth.runs.load import Run, judged
from troth.types import Arrays, Refusal

MODELS = ("personal", "shared", "local")


def find_clients(run: Run, which: str) -> list[int]:
    """Return the ids of the clients that a text selects.

    Args:
        run: a finished run.
        which: "all": benign clients that took part; "5": the first five of these;
            "3,8": clients 3 and 8; "3,": client 3 only.
    """
    good = np.flatnonzero(judged(run.clients)).tolist()
    if which == "all":
        return good
    try:
        ids = [int(part) for part in which.split(",") if part.strip()]
    except ValueError:
        ids = []
    if not ids or min(ids) < 0:
        raise Refusal(
            f"clients = '{which}' must be 'all', a count such as 10, or ids such as "
            "0,3,8 (one client: '3,' or --client 3)"
        )
    if "," not in which:
        if not 1 <= ids[0] <= len(good):
            raise Refusal(
                f"clients = {ids[0]} must be 1 to {len(good)}, the number of benign "
                "clients that took part"
            )
        return good[: ids[0]]
    for k in ids:
        run.check(k)
    return sorted({*ids})


def check(run: Run, s: Smoothing) -> None:
    """Raise Refusal if the models of a run cannot be certified.

    The run must be finished, its models must predict one class per example, and a
    deformation needs images.
    """
    e, facts = run.experiment, run.experiment.resolved
    if not run.finished:
        raise Refusal(
            f"{run.path} is not finished, so its models are not saved yet; continue "
            f"with: troth resume {run.path}"
        )
    if facts["classes"] == 0 or facts.get("multi_label"):
        kind = "several labels per example" if facts["classes"] else "numbers"
        raise Refusal(
            f"the models of {run.path} predict {kind}, but a certificate is about a "
            "single class; certify a run on data with one class per example"
        )
    if s.transform != "pixel" and len(facts["shape"]) != 3:
        raise Refusal(
            f"transform '{s.transform}' deforms images, but an example of "
            f"'{e.data.name}' has shape {facts['shape']}; take transform 'pixel'"
        )


def find_sources(
    run: Run, local: Run | None, models: tuple[str, ...] | None
) -> dict[str, Run]:
    """Return the run from which each kind of model comes.

    Args:
        run: the run with personal and shared models.
        local: a run with personalizer `local` for the local models, or None.
        models: names of kinds; None: all that the runs have.
    """
    own = run.experiment.personalizer.name
    if models is None:
        models = ("shared",) if own == "none" else ("personal", "shared")
        models += ("local",) if local is not None else ()
    unknown = [name for name in models if name not in MODELS]
    if unknown or not models:
        raise Refusal(
            f"models = '{','.join(models)}' must name some of {', '.join(MODELS)}, "
            "separated by commas"
        )
    found = {}
    for name in dict.fromkeys(models):
        found[name] = run if name != "local" else _local(run, local)
        if name == "personal" and own == "none":
            raise Refusal(
                f"{run.path} has no personal models (its personalizer is 'none'); take "
                "--models shared, or train with --set personalizer.name=finetune"
            )
        if name != "shared":
            found[name].model(0)  # raises Refusal if they were not saved
    return found


def _local(run: Run, local: Run | None) -> Run:
    """Return the run with the local models of the same clients."""
    if local is None:
        if run.experiment.personalizer.name == "local":
            return run
        raise Refusal(
            "local models come from another run: train the same experiment with "
            "--set personalizer.name=local, and give its folder with --local"
        )
    name = local.experiment.personalizer.name
    if name != "local":
        raise Refusal(
            f"{local.path} has personalizer '{name}'; local models come from a run "
            "with personalizer.name = 'local'"
        )
    for part in ("data", "partition", "seed"):
        a, b = getattr(run.experiment, part), getattr(local.experiment, part)
        if a != b:
            raise Refusal(
                f"{local.path} differs from {run.path} in '{part}', so its clients "
                "have other examples; train it with the same data, partition and seed"
            )
    return local


class Progress(NamedTuple):
    """Progress after a certificate, or after a client of an audit."""

    done: int  # number of certificates that exist
    total: int  # number of certificates at the end
    made: int  # number of certificates that this call made
    used: int  # number of samples that this call drew (audit: number of examples)
    what: str  # current model and client


class Found(NamedTuple):
    """The certificates of a run."""

    file: Path  # certificates.csv
    rows: list[Row]
    curves: dict[str, curves.Curves]  # by kind of model
    smoothing: Smoothing
    made: int  # number of certificates that this call made; the others existed before

    @property
    def files(self) -> list[Path]:
        """Paths of the certificates, of their curves as JSON, and of a figure."""
        s = self.smoothing
        pixels = s.units == "pixels" and s.transform == "translation"
        stem = f"certificates_{s.transform}_{s.sigma:g}" + "_pixels" * pixels
        return [self.file, *(self.file.parent / f"{stem}.{k}" for k in ("json", "png"))]

    def told(self) -> dict[str, Any]:
        """Return the summary as a tree for JSON."""
        s = self.smoothing
        tree: dict[str, Any] = {"file": str(self.file), "settings": s.record()}
        tree |= {"unit": s.unit, "certificates": len(self.rows), "made": self.made}
        models = {k: c.summary() for k, c in self.curves.items()}
        return tree | {"models": models, "paired": curves.paired(self.curves)}


class Classifier(nn.Module):
    """A run's network as a classifier of inputs from 0 to 1.

    Args:
        net: the network.
        scale: value of the network's inputs that is 1 for the classifier.
        single: whether the network has one output, the margin of two classes.
    """

    def __init__(self, net: nn.Module, scale: float, single: bool) -> None:
        super().__init__()
        self.net, self.scale, self.single = net, scale, single

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the classes: inputs [b, …] → [b, classes]."""
        scores: Tensor = self.net(x * self.scale if self.scale != 1 else x)
        if self.single:
            return torch.stack([-scores[:, 0], scores[:, 0]], dim=1)
        return scores


def parameters(run: Run) -> Tensor:
    """Return the parameters of the shared model; raise Refusal if one is not finite."""
    w = flat.flatten(run.network())
    if not bool(w.isfinite().all()):
        raise Refusal(
            f"the shared model of {run.path} is not finite; train again with a smaller "
            "train.lr or a robust aggregator first"
        )
    return w


class Source:
    """The models of one run as classifiers.

    The parameters of each client are loaded into the same module, so it is compiled
    only once.
    """

    def __init__(self, run: Run, smoothing: Smoothing, device: torch.device) -> None:
        self._run, facts = run, run.experiment.resolved
        self._net = run.network().float()
        self._w = flat.flatten(self._net)
        self._scale, self._single = facts["scale"], facts["classes"] == 2
        self._tiles: Tiles | None = None
        self._smoothing, self._device = smoothing, device

    def tiles(self, model: str, client: int) -> tuple[Tiles, str]:
        """Return a client's classifier under noise, and the hash of its parameters."""
        v = self._w
        if model != "shared":
            v = folder.load_model(self._run.path / folder.PERSONAL, client).float()
        flat.assign(self._net, v.to(next(self._net.parameters()).device))
        whole = self._run.raw(self._net, client)
        if self._tiles is None or whole is not self._net:
            made = self._classifier(whole)
            self._tiles = Tiles(made, self._smoothing, self._device)
        return self._tiles, fingerprint(whole)

    def _classifier(self, whole: nn.Module) -> Classifier:
        """Return a network as a classifier; for two classes, it may have one output."""
        whole = whole.to(self._device)
        whole = whole.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        shape = self._run.experiment.resolved["shape"]
        with torch.no_grad():
            width = whole(torch.zeros(1, *shape, device=self._device)).shape[1]
        return Classifier(whole, self._scale, self._single and width == 1).eval()


def certify(
    run: Run,
    smoothing: Smoothing,
    *,
    models: tuple[str, ...] | None = None,
    clients: str = "all",
    examples: int = 500,
    local: Run | None = None,
    out: Path | None = None,
    data_dir: str | None = None,
    device: str = "auto",
    watch: Callable[[Progress], None] | None = None,
) -> Found:
    """Certify the models of a run on the test examples of each client.

    Inputs are scaled to 0 … 1, so σ and radii of `pixel` are on that scale. An example
    gets the same noise under every model. Certificates that exist already are not made
    again. Curves are written to the folder of `certificates.csv` (`Found.files`).

    Args:
        run: A finished run.
        smoothing: Noise, number of samples and failure probability.
        models: Some of `personal`, `shared`, `local`; None: all that the runs have.
        clients: "all": benign clients that took part; "5": the first five of these;
            "3,8": clients 3 and 8; "3,": client 3 only.
        examples: Number of test examples per client, drawn at random. If a client has
            fewer, all are taken.
        local: Run on the same data with personalizer `local`, for the local models.
        out: Folder to write to; None: that of the run.
        data_dir: Folder to search first for data.
        device: auto, cpu, cuda, cuda:N or mps.
        watch: Function that is called after every certificate with the progress.

    Returns:
        The certificates, their curves and files.

    Raises:
        Refusal: The run does not have these models, the inputs of a deformation are
            not images, or the file has certificates for other parameters.
    """
    from troth.plot import trust  # not at the top, because matplotlib loads slowly

    if examples < 1:
        raise Refusal(f"examples = {examples} must be 1 or more of each client")
    check(run, smoothing)
    sources = find_sources(run, local, models)
    chosen = find_clients(run, clients)
    e, where = run.experiment, build.device(device)
    place = data_dir or e.resolved.get("data_dir")
    arrays, shards, _ = load.deal(e, place)
    tasks = [
        (name, k, _drawn(shards.test[k], k, examples, smoothing.seed).tolist())
        for name in sources
        for k in chosen
    ]
    ledger = Ledger(out or run.path, smoothing.record())
    try:
        with devices.using(devices.threads(where)):
            made = _work(ledger, tasks, sources, arrays, smoothing, where, watch)
        known = {row[:3]: row for row in ledger.rows}
        rows = [known[name, k, r] for name, k, some in tasks for r in some]
    finally:
        ledger.close()
    drawn = {name: _curves(rows, name, smoothing) for name in sources}
    found, s = Found(ledger.path, rows, drawn, smoothing, made), smoothing
    title = f"{s.transform}, σ = {s.sigma:g}, α = {s.alpha:g}, n = {s.n:,}"
    title += " (adaptive)" if s.adaptive else ""
    _, numbers, drawing = found.files
    trust.certificates(drawn, title, s.unit).savefig(drawing)
    folder.write_json(numbers, found.told())
    return found


Task = tuple[str, int, list[int]]
"""Kind of model, client, and rows of the data set to certify."""


def _work(
    ledger: Ledger,
    tasks: list[Task],
    sources: dict[str, Run],
    arrays: Arrays,
    s: Smoothing,
    device: torch.device,
    watch: Callable[[Progress], None] | None,
) -> int:
    """Make the certificates that are missing, and return their number."""
    known = {row[:3]: row.parameters for row in ledger.rows}
    total = sum(len(rows) for _, _, rows in tasks)
    done = sum((model, k, r) in known for model, k, rows in tasks for r in rows)
    made, used, opened = 0, 0, dict[Path, Source]()
    for model, k, rows in tasks:
        run = sources[model]
        if run.path not in opened:
            opened[run.path] = Source(run, s, device)
        tiles, hash_ = opened[run.path].tiles(model, k)
        todo = [r for r in rows if (model, k, r) not in known]
        for r in {*rows} - {*todo}:
            matching(known[model, k, r], hash_, f"the {model} model of client {k}")
        for row in _each(tiles, arrays, model, k, todo, hash_):
            ledger.add(row, device.type, tiles.compiled)
            made, used = made + 1, used + row.certificate.used
            if watch is not None:
                what = f"{model}, client {k}"
                watch(Progress(done + made, total, made, used, what))
    return made


def _each(
    tiles: Tiles, arrays: Arrays, model: str, client: int, todo: list[int], hash_: str
) -> Iterator[Row]:
    """Certify the predictions of one client's model for some rows of the data set."""
    if not todo:
        return
    x = arrays.x[todo].astype(np.float32) / np.float32(arrays.scale)
    given = certifier.inputs(x, tiles.smoothing).to(tiles.device)
    found = certifier.each(tiles, given, todo)
    for r, certificate in zip(todo, found, strict=True):
        yield Row(model, client, r, int(arrays.y[r]), certificate, hash_)


def _curves(rows: list[Row], model: str, s: Smoothing) -> curves.Curves:
    mine = [row for row in rows if row.model == model]
    columns = [[row.client, row.y, *row.certificate] for row in mine]
    client, y, label, radius, _, _, used, _ = (
        np.array(column) for column in zip(*columns, strict=True)
    )
    return curves.curves(client, y, label, radius, used, curves.grid(s))


def _drawn(test: np.ndarray, client: int, count: int, seed: int) -> np.ndarray:
    """Draw test examples of a client at random.

    With a smaller count, the result is the beginning of the same list.
    """
    key = seeding.key(seed, "certify examples", 0, client).numpy()[None]
    some = np.arange(min(count, len(test)))
    return np.asarray(test[seeding.permute(key, some, np.array([len(test)]))])
