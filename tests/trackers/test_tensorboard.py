"""TensorBoard's own reader finds the values of a run in the event files."""

import pytest

from troth.config.schema import Part
from troth.runs import track

pytest.importorskip("tensorboard")


def read(folder):
    """Values by name and step, and texts, as TensorBoard reads them."""
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.util import tensor_util

    events = event_accumulator.EventAccumulator(str(folder))
    events.Reload()
    found = {
        name: {
            e.step: tensor_util.make_ndarray(e.tensor_proto)
            for e in events.Tensors(name)
        }
        for name in events.Tags()["tensors"]
    }
    text = found.pop("settings/text_summary")[0].item().decode()
    return {k: {s: v.item() for s, v in of.items()} for k, of in found.items()}, text


def test_values_read_back_are_ours(grid, expected):
    root = grid[0].path.parent
    track.track([root], Part("tensorboard"))
    for run in grid:
        place = root.parent / "tensorboard" / "many" / run.path.name
        values, text = read(place)
        assert values == expected(run)
        assert (
            values["personal/accuracy_mean"][4]
            == run.summary["personal"]["accuracy_mean"]
        )
        assert f"| seed | {run.experiment.seed} |" in text
        saved = place / "artifacts" / "clients.csv"
        assert saved.read_bytes() == (run.path / "clients.csv").read_bytes()


def test_tracking_again_replaces_the_events(grid, expected, tmp_path):
    part = Part("tensorboard", {"folder": str(tmp_path)})
    for _ in range(2):
        track.track([grid[0].path], part)
    place = tmp_path / grid[0].path.name
    assert len([*place.glob("events*")]) == 1
    assert read(place)[0] == expected(grid[0])
