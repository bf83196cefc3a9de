"""A site's states on its disk."""

import pytest
import torch

from troth.deployment.state import Keeper
from troth.types import Refusal

START = torch.zeros(1, 3)


def row(value):
    return torch.full((1, 3), float(value))


def test_a_round_begins_with_the_last_state_before_it(tmp_path):
    kept = Keeper(tmp_path / "run")
    assert torch.equal(kept.before(0, START), START)
    kept.keep(0, row(1))
    kept.keep(3, row(4))  # rounds 1 and 2 went by without this site
    for round_, value in ((0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (9, 4)):
        assert torch.equal(kept.before(round_, START), row(value))
    kept.keep(1, row(20))  # the server took rounds back
    assert torch.equal(kept.before(7, START), row(20))
    assert torch.equal(kept.before(1, START), row(1))


def test_old_states_go(tmp_path):
    kept = Keeper(tmp_path)
    kept.before(0, START)
    for r in range(40):
        kept.keep(r, row(r))
    assert len(list(tmp_path.iterdir())) == 8
    with pytest.raises(Refusal, match="keeps no state from before round 5, only from"):
        kept.before(4, START)


def test_states_that_cannot_be_used(tmp_path):
    kept = Keeper(tmp_path / "run")
    kept.keep(0, torch.zeros(1, 5))
    with pytest.raises(Refusal, match="holds a state of 5 numbers and this model has"):
        kept.before(1, START)
    [file] = kept.path.iterdir()
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(Refusal, match=f"{file.name} cannot be read"):
        kept.before(1, START)
    with pytest.raises(Refusal, match="cannot be written .Not a directory.; give"):
        Keeper(file / "run").keep(0, row(1))
