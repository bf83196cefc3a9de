"""The server of a real federation: shared model, filters and aggregator, but no data.

The same `Serving` as in a simulation processes the messages.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import troth
from troth import build, files
from troth.config.schema import Experiment
from troth.data import preprocess as dealing
from troth.deployment import site
from troth.deployment.protocol import Answer, Expected
from troth.federation import sampling
from troth.federation.rounds import dumped, first, outgoing, restored
from troth.networks import task
from troth.server import rules as rulebook
from troth.server.server import Served, Serving
from troth.types import Arrays, Broadcast, Messages, Refusal, Shards


class Hub:
    """The server's state: shared model, round, and memory of filters and aggregator."""

    def __init__(self, e: Experiment, run: str) -> None:
        """Build the server's state before the first round.

        Args:
            e: The experiment, as `site.agreed` returns it.
            run: Random token that identifies the run. It is the name of the folder in
                which a site stores its state.
        """
        self.e, self.run, self.round = e, run, 0
        self.names, self.rounds = e.deployment.sites, e.train.rounds
        n, where = len(self.names), build.device(e.engine.device)
        arrays, shards = _blank(e)
        nobody, dtype = np.zeros(n, bool), build.precision(e)
        raw = dealing.Raw(arrays, shards, dtype, where, nobody, None, e.seed)
        data = dealing.as_tensors(raw)
        self.engine = site.engine(e, arrays, data, where)
        w0 = task.flatten(self.engine.objective.net)
        hostile = int(build.adversaries(e, n).sum())
        rules = rulebook.of(e, rulebook.expected(e, n, hostile))._replace(attack=None)
        rulebook.tried(rules, w0, e.train.cohort or n)
        self.serving = Serving(rules, self.engine.task.tail, e.seed, where, n)
        self.broadcast = first(self.engine, w0)
        self.scale = build.schedule(e)
        self.scale(0)  # raises Refusal now if the schedule is not valid
        how, cohort = e.train.sampling, e.train.cohort or n
        self.sample = sampling.named(how, e.seed, cohort, np.ones(n))
        self.identity = site.identity(e, self.engine, w0)
        self.every = e.evaluate.every or max(1, self.rounds // 20)
        self.far = np.zeros((2, n))  # sum and number of each site's distances

    @property
    def over(self) -> bool:
        """Whether all rounds are done."""
        return self.round >= self.rounds

    def outgoing(self) -> Broadcast:
        """Return the message to the sites: that of this round, or the final one."""
        scale = 1.0 if self.over else self.scale(self.round)
        return outgoing(self.engine, self.broadcast, scale, self.round)

    def expected(self) -> Expected:
        """Return what a reply of this round must contain."""
        w, extra = self.broadcast.w, self.broadcast.extra
        most, loss = self.e.deployment.most_examples, self.serving.asks_loss
        shape = len(w), len(extra), w.dtype
        card = self.round > 0 and self.round % self.every == 0
        return Expected(*shape, self.round, self.run, most, loss, card)

    def welcome(self, about: Mapping[str, Any]) -> int:
        """Return the client number of a site that introduces itself.

        Raise Refusal if it has another experiment, model or version, or an unknown
        name.

        Args:
            about: What the site sends: its name, version and facts to compare.
        """
        mine = {**self.identity, "version": troth.__version__}
        for word, value in mine.items():
            if about.get(word) != value:
                raise Refusal(
                    f"its {word} is {ascii(about.get(word))[:60]}, and the server's is "
                    f"{value}; give both the same experiment and version"
                )
        name = about.get("name")
        if name not in self.names:
            raise Refusal(f"it calls itself {ascii(name)[:60]}, which is no site")
        return self.names.index(str(name))

    @torch.no_grad()
    def serve(self, answers: Mapping[int, Answer]) -> tuple[Served, dict[int, float]]:
        """Filter and aggregate the replies of a round, and move to the next round.

        With fewer than `deployment.least` replies, the shared model does not change.

        Returns:
            The result with the new shared model, and the relative distance of each
            site's update from the aggregate, by client.
        """
        before, r = self.outgoing(), self.round
        messages = _stacked(dict(sorted(answers.items())), before)
        few = len(answers) < self.e.deployment.least
        heard = Messages(*(field[:0] for field in messages)) if few else messages
        served = self.serving.serve(before, heard, r)
        if few:
            needed = f"{self.e.deployment.least} are needed"
            served = served._replace(why=f"{len(answers)} replies came and {needed}")
        far = self._distances(messages)
        self.broadcast, self.round = served.broadcast, r + 1
        return served, far

    def _distances(self, messages: Messages) -> dict[int, float]:
        """Return the relative distance of each reply from the aggregate, by client.

        It is ‖update − aggregate‖ divided by the median of these norms.
        """
        step, head = self.serving.aggregated, len(self.broadcast.w)
        head -= self.engine.task.tail
        if step is None or not len(messages.client):
            return {}
        apart = (messages.update[:, :head].double() - step.double()).norm(dim=1)
        unit = float(apart.median()) or 1.0
        far = dict(zip(messages.client.tolist(), (apart / unit).tolist(), strict=True))
        for k, value in far.items():
            self.far[:, k] += value, 1
        return far

    def ranking(self) -> list[tuple[str, float]]:
        """Return sites and their mean relative distances from the aggregate.

        The farthest site is first. The distance is NaN if a site never replied.
        """
        total, count = self.far
        mean = np.where(count > 0, total / np.maximum(count, 1), math.nan)
        order = np.argsort(-np.nan_to_num(mean, nan=-1.0), kind="stable")
        return [(self.names[k], float(mean[k])) for k in order]

    def save(self, path: Path, **facts: Any) -> None:
        """Write a checkpoint with everything that is needed to continue the run.

        Args:
            path: Folder of the run.
            **facts: Further values to store.
        """
        tensors = dumped(self.serving, self.broadcast)
        tensors["far"] = torch.from_numpy(self.far)
        everything = {"round": self.round, "run": self.run, **self.identity, **facts}
        files.save(path / files.CHECKPOINT, tensors, **everything)

    def restore(self, path: Path) -> dict[str, Any]:
        """Continue from the checkpoint in a folder, and return the values stored in it.

        Raise Refusal if it is a checkpoint of another experiment.
        """
        tensors, facts = files.load(path / files.CHECKPOINT)
        for key, value in self.identity.items():
            if facts.get(key) != value:
                raise Refusal(
                    f"{path} holds a run of another experiment ({key} {facts.get(key)} "
                    f"there, {value} here); give another --out, or that experiment"
                )
        self.broadcast = restored(self.serving, self.broadcast, tensors)
        self.far, self.round = tensors["far"].numpy(), facts["round"]
        self.run = facts["run"]
        return facts


def _stacked(answers: Mapping[int, Answer], sent: Broadcast) -> Messages:
    """Stack replies to messages with one row per site, in the order of `answers`."""
    w, extra = sent.w, sent.extra
    each = list(answers.values())
    # w and extra are appended and removed, so that shapes are known without replies
    return Messages(
        torch.stack([*(a.update.to(w) for a in each), w])[:-1],
        torch.stack([*(a.extra.to(extra) for a in each), extra])[:-1],
        torch.tensor([a.loss for a in each], dtype=w.dtype, device=w.device),
        torch.tensor([a.size for a in each], dtype=torch.long, device=w.device),
        torch.tensor(list(answers), dtype=torch.long, device=w.device),
    )


def _blank(e: Experiment) -> tuple[Arrays, Shards]:
    """Return a data set of two examples of zeros.

    The server has no data, but needs example inputs to build its network.
    """
    own = e.deployment
    x, classes = np.zeros((2, *own.shape), np.float32), own.classes or 0
    y = np.array([0, min(1, classes - 1)]) if classes else np.zeros(2, np.float32)
    y = np.zeros((2, classes), np.int64) if own.several else y
    first, none = np.arange(2), np.zeros(0, np.int64)
    each = [first, *[none] * (len(own.sites) - 1)]
    return Arrays(x, y, classes, own.scale), Shards(each, each, each)
