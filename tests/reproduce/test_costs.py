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
