"""Store a site's state on its own disk, for each of the last rounds.

The state contains, for example, the personal model. Its file never leaves the site.
"""

import re
from pathlib import Path

from torch import Tensor

from troth import files
from troth.types import Refusal

_FILE = re.compile(r"(\d{8})\.safetensors")
_KEPT = 8  # number of rounds whose states are stored


class Keeper:
    """The stored states of a client in one run: those before each of the last rounds.

    If the server repeats a round, the client starts from the state before that round.
    Later states are deleted, because the server discarded their rounds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path  # folder, created when the first state is stored

    def before(self, round_: int, start: Tensor) -> Tensor:
        """Return the client's state before a round, [1, width].

        Args:
            round_: Number of the round.
            start: State of a client that was never selected.

        Raises:
            Refusal: All states before this round were deleted, or the state cannot be
                read, or it belongs to another model.
        """
        there = self._there()
        known = [r for r in there if r <= round_]
        if not known:
            if there:
                raise Refusal(
                    f"{self.path} keeps no state from before round {round_ + 1}, only "
                    f"from before round {min(there) + 1} on; start the run anew"
                )
            self.keep(-1, start)  # in case the first round is repeated
            return start
        file = self._file(max(known))
        try:
            row = files.load(file)[0]["row"]
        except Exception as error:
            raise Refusal(
                f"{file} cannot be read ({type(error).__name__}); remove it: the site "
                "then continues from the previous round"
            ) from None
        if row.shape != start.shape or row.dtype != start.dtype:
            raise Refusal(
                f"{file} holds a state of {row.shape[-1]} numbers and this model has "
                f"{start.shape[-1]}; give another --state, or that run's experiment"
            )
        return row.to(start.device)

    def keep(self, round_: int, row: Tensor) -> None:
        """Store the state after a round, and delete old states and later ones.

        The file is written atomically.
        """
        self.make()
        files.save(self._file(round_ + 1), {"row": row})
        for r in self._there():
            if r > round_ + 1 or r <= round_ + 1 - _KEPT:
                self._file(r).unlink(missing_ok=True)

    def make(self) -> None:
        """Make the folder, if it does not exist."""
        with files.refused(
            self.path, "give another --state, or make room on a full disk"
        ):
            self.path.mkdir(parents=True, exist_ok=True)

    def _there(self) -> list[int]:
        if not self.path.is_dir():
            return []
        found = (_FILE.fullmatch(file.name) for file in self.path.iterdir())
        return sorted(int(m[1]) for m in found if m)

    def _file(self, round_: int) -> Path:
        return self.path / f"{round_:08d}.safetensors"
