"""What the page of benchmarks says of the columns of a table is what was measured."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "benchmarks"
PRODUCTS = {
    "float32": ["columns_h200"],
    "TF32": ["columns_tf32_h200", "columns_tf32_h200_2", "columns_tf32_h200_3"],
}


@pytest.mark.parametrize("products", PRODUCTS)
@pytest.mark.parametrize("row", ["median", "Ditto, λ=1"])
def test_columns_of_a_row(row, products):
    every = []
    for name in PRODUCTS[products]:
        said = json.loads((ROOT / "results" / f"{name}.json").read_text("utf-8"))
        (one,) = [one for one in said["rows"] if one["row"] == row]
        assert one["ratio"] == one["together"]["ms_round"] / one["apart"]["ms_round"]
        every.append(one)
    texts = [
        "; ".join(f"{one[way]['ms_round']:.1f}" for one in every)
        for way in ("together", "apart")
    ]
    texts.append("; ".join(f"{one['ratio']:.2f}"[1:] for one in every))
    texts.append(f"{max(one['apart_at_the_end'] for one in every):g}")
    page = (ROOT / "README.md").read_text("utf-8")
    name = row.replace("=", " = ")
    assert f"| {name} | {products} | {' | '.join(texts)} |" in page
