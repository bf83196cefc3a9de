"""Runs that are stopped and go on."""

import pytest

import troth
from troth import files


class Killed(Exception):
    """Stops a run."""


@pytest.fixture
def resumed(tmp_path):
    """Trains a run whole and, stopped after two rounds, again: the same bytes."""

    def kill(progress):
        if progress.done == 2:
            raise Killed

    def both(wanted):
        [run] = troth.run(wanted, out=tmp_path / "whole")
        with pytest.raises(Killed):
            troth.run(wanted, out=tmp_path / "cut", watch=kill)
        troth.resume(tmp_path / "cut")
        for name in (files.CLIENTS, files.ROUNDS, files.SHARED, files.PERSONAL):
            whole, cut = (tmp_path / part / name for part in ("whole", "cut"))
            assert whole.exists() == cut.exists(), name
            assert not whole.exists() or whole.read_bytes() == cut.read_bytes(), name
        return run

    return both
