"""What an entry takes."""

from __future__ import annotations

from troth.reproduce import costs, listing, settings
from troth.reproduce.entry import merged
from troth.reproduce.kept import Shelf


def test_what_an_entry_takes() -> None:
    f = settings.FASHION.original
    assert costs.steps(f.tree, f) == 100_000
    tuned = merged(f.tree, {"personalizer": {"name": "finetune", "epochs": 40}})
    assert costs.steps(tuned, f) == 100_000 + 500 * 40 * 8
    shelf = Shelf(None, None)
    cells8 = listing.find("ditto/table8").everywhere()
    local = [c for c in cells8 if c.row == "local"]
    assert costs.cost(local, shelf).client_steps == 5 * 100_000  # clean, 10 … 80 %


def test_rounds_of_a_small_model_take_longer_than_its_steps() -> None:
    """600 rounds of ten linear models: of their seconds, steps are a tenth."""
    cells = listing.find("fmtl/table5").everywhere()
    (one,) = (c for c in cells if c.label.endswith("median / clean"))
    found = costs.cost([one], Shelf(None, None))
    assert found.seconds > 600 * costs.ROUND > 5 * (found.seconds - 600 * costs.ROUND)
    assert not found.measured
