"""What a site does when the server asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from troth import files
from troth.config import reader
from troth.deployment import site as sites
from troth.deployment import site as turns
from troth.deployment.site import Asked, Site
from troth.types import Broadcast, Refusal

RUN = "0123456789abcdef"
TREE: dict[str, Any] = {
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 2},
    "train": {"rounds": 2, "steps": 2, "batch": 4},
    "personalizer": {"name": "ditto", "lam": 0.5},
    "engine": {"device": "cpu"},
    "deployment": {
        "sites": ["a", "b"],
        "shape": [1, 8, 8],
        "classes": 10,
        "scale": 16.0,
    },
}


@pytest.fixture(scope="module")
def site() -> Site:
    return Site(sites.agreed(reader.from_dict(TREE)), "b", "experiment")


def sent(site: Site) -> Broadcast:
    return Broadcast(site.w0, site.w0.new_zeros(0), site.w0.new_ones(()))


def test_a_card_tells_of_what_the_round_began_with(tmp_path: Path, site: Site) -> None:
    messages, card = turns.train(site, tmp_path, sent(site), Asked(0, RUN, False, True))
    found = json.loads(card)
    assert found["personal_accuracy"] == found["shared_accuracy"]  # both are w0 yet
    assert messages.update.abs().max() > 0
    kept = sorted(p.name for p in (tmp_path / RUN).iterdir())
    assert kept == ["00000000.safetensors", "00000001.safetensors"]
    asked = Asked(1, RUN, False, True)
    later = json.loads(turns.train(site, tmp_path, sent(site), asked)[1])
    assert later["personal_loss"] < later["shared_loss"]
    quiet = Asked(1, RUN, False, False)
    assert turns.train(site, tmp_path, sent(site), quiet)[1] == ""


def test_the_end_leaves_a_model_and_a_card(tmp_path: Path, site: Site) -> None:
    turns.train(site, tmp_path, sent(site), Asked(0, RUN, False, False))
    told = turns.finish(site, tmp_path, sent(site), Asked(1, RUN, False, False))
    card = json.loads((tmp_path / RUN / "card.json").read_text())
    assert card["name"] == "b" and card["run"] == RUN
    assert {k: card[k] for k in json.loads(told)} == json.loads(told)
    own = files.load(tmp_path / RUN / "model.safetensors")[0]
    assert sum(t.numel() for t in own.values()) >= 650
    assert any(not torch.equal(t, u) for t, u in zip_models(site, own))


def zip_models(site: Site, own: dict[str, torch.Tensor]) -> list[Any]:
    state = site.engine.objective.net.state_dict()
    return [(own[key], state[key]) for key in own]


@pytest.mark.parametrize(("run", "round_"), [("../../etc", 0), ("", 0), (RUN, -1)])
def test_a_server_cannot_name_files_elsewhere(
    tmp_path: Path, site: Site, run: str, round_: int
) -> None:
    with pytest.raises(Refusal, match="is of no run or round"):
        turns.train(site, tmp_path, sent(site), Asked(round_, run, False, False))
    assert not list(tmp_path.iterdir())
