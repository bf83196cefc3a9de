"""What the page of benchmarks says of the columns of a table is what was measured."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "benchmarks"
SYSTEMS = ["troth", "loop", "pfl", "fedjax"]
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


@pytest.mark.parametrize("page", ["README.md", "benchmarks/README.md"])
def test_other_systems(page):
    """Both tables of speed are the raw numbers, rounded."""
    raw = json.loads((ROOT / "results" / "peers_cpu.json").read_text("utf-8"))
    lines = (ROOT.parent / page).read_text("utf-8").splitlines()
    for work in ("W1", "W2", "W3"):
        own = {r["system"]: r for r in raw if r["workload"] == work}
        numbers = [own[name]["us_per_client_step"] for name in SYSTEMS]
        texts = [f"{n:.1f}" if n < 100 else f"{n:,.0f}" for n in numbers]
        (line,) = [line for line in lines if line.startswith(f"| {work}: ")]
        assert line.endswith(f"| {' | '.join(texts)} |")
    if page == "benchmarks/README.md":
        for name, digits in (("first_round_s", 1), ("peak_gb", 2)):
            cells = [
                " / ".join(f"{r[name]:.{digits}f}" for r in raw if r["system"] == one)
                for one in SYSTEMS
            ]
            assert any(line.endswith(f"| {' | '.join(cells)} |") for line in lines)


def test_systems_on_a_gpu():
    raw = json.loads((ROOT / "results" / "peers_h200.json").read_text("utf-8"))
    page = (ROOT / "README.md").read_text("utf-8")
    loops = {r["workload"]: r["us_per_client_step"] for r in raw["loop"]}
    names = {"tf32": "TF32", "bfloat16": "bfloat16"}
    for now in raw["after"]:
        work, precision = now["workload"], now["precision"]
        (before,) = [
            r
            for r in raw["before"]
            if (r["workload"], r["precision"]) == (work, precision)
            and r["personalizer"] == "FedAvg"
        ]
        both = (r["us_per_client_step"] for r in (before, now))
        texts = [f"{n:.1f}" if n < 100 else f"{n:,.0f}" for n in both]
        loop = f" {loops[work]:,.0f}" if work in loops else ""
        name = work.replace("x100", ", cohort 100")
        head = f"| {name}, {names[precision]} |{loop} | {' | '.join(texts)} |"
        (line,) = [line for line in page.splitlines() if line.startswith(head)]
        busy = now["round_ms"] - now["busy_ms_per_round"]
        assert busy > 0 and line.endswith(f" | {now['plan_s']:.1f} |")
    resnet = raw["resnet18"]
    assert f"a step takes {resnet['ms_client_step']:.1f} ms" in page.replace("\n", " ")
    ditto = [r for r in raw["before"] if r["workload"] == "W2"][-1]
    plain = [r for r in raw["before"] if r["workload"] == "W2"][0]
    ratio = ditto["us_per_client_step"] / plain["us_per_client_step"]
    assert f"Ditto took {ratio:.2f} times" in page.replace("\n", " ")


def test_single_numbers_of_the_readme():
    text = " ".join((ROOT.parent / "README.md").read_text("utf-8").split())
    sites = json.loads((ROOT / "results" / "flower_processes_cpu.json").read_text())
    ours, theirs = sites["median_s"]["troth"], sites["median_s"]["flower"]
    assert (
        f"takes {ours:.2f} s in Troth, and {theirs:.1f} s with the FedAvg app" in text
    )
    rules = json.loads((ROOT / "results" / "aggregators_cpu.json").read_text())["rules"]
    (median,) = [rule for rule in rules if rule["rule"] == "median"]
    ours, theirs = (min(median[name]["seconds"]) for name in ("troth", "byzfl"))
    assert f"takes {ours:.2f} s in Troth, and {theirs:.2f} s in ByzFL" in text
