"""TensorBoard: event files in a folder."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from troth.types import Refusal, Tracked

_SUFFIX = ".troth"  # marks our event files; other ones are not replaced
_ARTIFACTS = "artifacts"


def tensorboard(run: Tracked, *, folder: str = "") -> "_Events":
    """Write a run's values to event files of TensorBoard.

    `tensorboard --logdir FOLDER` shows them. Each run of a grid has its own subfolder.
    Files of a run are copied to the folder `artifacts` next to its event files. Install
    TensorBoard by `pip install 'troth[tensorboard]'`.

    Args:
        run: The run or grid to record.
        folder: Folder of all event files. "" means the folder `tensorboard` next to the
            run or grid.
    """
    root = Path(folder) if folder else run.root.absolute().parent / "tensorboard"
    made = _Events(root.joinpath(*run.name.split("/")), run.settings)
    made.where = f"{root} (show it: tensorboard --logdir {shlex.quote(str(root))})"
    return made


class _Events:
    """The tracker of one run: its event files."""

    where = ""

    def __init__(self, place: Path, settings: Mapping[str, str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise Refusal(
                "tensorboard is not installed; install it with: "
                "pip install 'troth[tensorboard]'"
            ) from None
        for old in place.glob(f"events.out.tfevents.*{_SUFFIX}"):
            old.unlink()
        self._artifacts = place / _ARTIFACTS
        self._writer = SummaryWriter(place, filename_suffix=_SUFFIX)
        rows = "".join(f"| {key} | {value} |\n" for key, value in settings.items())
        self._writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}")

    def log(self, rounds: Mapping[int, Mapping[str, float]]) -> None:
        exact = {"new_style": True, "double_precision": True}
        for step, values in rounds.items():
            for name, value in values.items():
                self._writer.add_scalar(name, value, step, **exact)
        self._writer.flush()

    def save(self, files: Sequence[Path]) -> None:
        self._artifacts.mkdir(exist_ok=True)
        for file in files:
            shutil.copyfile(file, self._artifacts / file.name)

    def close(self, finished: bool) -> None:
        self._writer.close()
