"""The files that a run writes during training: its rounds and its checkpoint."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from troth import files
from troth.federation.rounds import Federation, dumped, restored
from troth.types import Record, Refusal

_VERDICTS = ("clipped", "chosen", "downweighted")
_COUNTED = ("asked", "absent", "cut", "dropped", *_VERDICTS)


class Journal:
    """Writer of the file of rounds and of checkpoints; it counts events per client.

    It locks the file of rounds. The lock shows viewers that the run is active, and
    keeps other processes from training the same run.

    Raises:
        Refusal: another process trains the run.
    """

    def __init__(self, path: Path, federation: Federation) -> None:
        self.path, self._federation = path, federation
        n = federation.population.n
        self.counts = {name: np.zeros(n, np.int64) for name in _COUNTED}
        self.stayed, self.why = 0, ""  # rounds with unchanged w, and the last reason
        self._file = (path / files.ROUNDS).open("ab")
        if not files.hold(self._file):
            self._file.close()
            raise Refusal(
                f"another process is training {path}; wait until it ends, or stop it"
            )

    def write(self, record: Record, evaluated: dict[str, Any] | None) -> None:
        """Write one round; without times, so that equal runs write equal bytes."""
        self.counts["asked"][record.cohort] += 1
        self.counts["absent"][record.absent] += 1
        self.counts["cut"][record.cut] += 1
        for clients in record.dropped.values():
            self.counts["dropped"][clients] += 1
        for name in _VERDICTS:
            self.counts[name][record.verdicts.get(name, [])] += 1
        line = {
            "round": record.round,
            "cohort": record.cohort.tolist(),
            "absent": record.absent.tolist(),
            "cut": record.cut.tolist(),
            "dropped": dict(record.dropped),
            **record.verdicts,
            "moved": record.moved,
            "cosine": record.cosine,
            "stayed": record.stayed,
        }
        if record.stayed:
            self.stayed += 1
            line["why"] = self.why = record.why
        if evaluated is not None:
            line["evaluation"] = evaluated
        self._file.write((json.dumps(files.plain(line)) + "\n").encode())
        self._file.flush()  # so that viewers can read the round

    def checkpoint(self, seconds: float) -> None:
        """Save all that is needed to resume the run, and the seconds of training."""
        self._file.flush()
        f = self._federation
        tensors = {f"population.{k}": v for k, v in f.population.dump().items()}
        tensors |= dumped(f.serving, f.broadcast)
        tensors |= {k: torch.from_numpy(v) for k, v in self.counts.items()}
        path = self.path / files.CHECKPOINT
        facts = {"round": f.round, "rounds": self._file.tell(), "seconds": seconds}
        files.save(path, tensors, **facts, stayed=self.stayed, why=self.why)
        f.population.saved()

    def restore(self) -> float:
        """Restore the last checkpoint, if any; return its seconds of training."""
        path, f = self.path / files.CHECKPOINT, self._federation
        if not path.exists():
            self._file.truncate(0)
            return 0.0
        tensors, facts = files.load(path)
        rows = {k: v for k, v in tensors.items() if k.startswith("population.")}
        f.population.load({k.partition(".")[2]: v for k, v in rows.items()})
        f.broadcast = restored(f.serving, f.broadcast, tensors)
        f.round = facts["round"]
        self.stayed, self.why = facts["stayed"], facts["why"]
        self.counts = {name: tensors[name].numpy() for name in _COUNTED}
        self._file.truncate(facts["rounds"])
        self._file.seek(0, 2)
        return float(facts["seconds"])

    def close(self) -> None:
        """Close the file of rounds."""
        self._file.close()
