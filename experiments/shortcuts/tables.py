"""The tables of the page beside this, from results; pictures.py prints them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import markdown
from inputs import RATES
from reading import (
    SCORES,
    Row,
    auroc,
    both,
    curves,
    load,
    mean_curve,
    moment,
    over,
    partial,
    rank,
)
from tune import HALVES

PAPER = {  # Table 1: Acc_B, Acc_BC
    "mnist": {
        "global": (0.852, 0.847),
        "finetune": (0.989, 0.704),
        "upweight": (0.968, 0.823),
        "transfer": (0.951, 0.870),
    },
    "coil20": {
        "global": (0.882, 0.903),
        "finetune": (0.958, 0.782),
        "transfer": (0.901, 0.916),
    },
    "celeba": {  # CelebA_S
        "global": (0.930, 0.910),
        "finetune": (0.952, 0.786),
        "upweight": (0.930, 0.889),
        "transfer": (0.932, 0.910),
    },
}
PAPER["mnist_fixed"] = PAPER["mnist"]
METHODS = ("finetune", "upweight", "group_dro", "ditto", "transfer")
METHODS += ("adversarial alone", "distance alone", "as finetune")
PARTS = ("finetune", "adversarial alone", "distance alone", "transfer")
MOMENTS = {"a quarter of the steps": 0.25, "half": 0.5, "all": 1.0}
PROBLEMS = ("mnist", "mnist_fixed", "coil20", "celeba")


def spread(values: np.ndarray, sign: str = "") -> str:
    """Mean ± standard deviation over runs, of one its value."""
    if not len(values) or np.isnan(values).all():
        return "–"
    if len(values) == 1:
        return f"{values[0]:{sign}.3f}"
    return f"{np.nanmean(values):{sign}.3f} ± {np.nanstd(values):.3f}"


def of(rows: dict[str, list[Row]], problem: str, method: str) -> list[Row]:
    """All runs of a method, every seed of personalization; Ditto has one."""
    rows = load("ditto") if method == "ditto" else rows
    return [row for p in range(3) for row in rows.get(f"{problem}, {method}, {p}", [])]


def main_table(problem: str) -> str:
    """Table 1 of one problem: ours beside the paper's."""
    rows, last, shared = load("table"), load("last"), load("shared")[problem]
    paper = PAPER[problem]
    lines = []
    if shared:
        found = over(shared, "shared")
        pair = paper["global"]
        cells = [spread(found[:, 0]), spread(found[:, 1]), "", "", "", ""]
        said = f"{pair[0]:.3f} / {pair[1]:.3f}"
        lines.append(["global", str(len(shared)), *cells, said])
    for method in METHODS:
        runs = of(rows, problem, method)
        if not runs:
            continue
        found = over(runs)
        base = {row["seed"]: both(row, "shared") for row in shared}
        more = np.array([np.subtract(both(r), base[r["seed"]]) for r in runs])
        cells = [spread(found[:, i]) for i in (0, 1)]
        cells += [spread(more[:, i], "+") for i in (0, 1)]
        unselected = runs if method == "ditto" else of(last, problem, method)
        cells += (
            [spread(over(unselected)[:, i]) for i in (0, 1)] if unselected else [""] * 2
        )
        pair = paper.get(method)
        cells.append(f"{pair[0]:.3f} / {pair[1]:.3f}" if pair else "")
        lines.append([method, str(len(runs)), *cells])
    head = [
        "method",
        "runs",
        "Acc_B",
        "Acc_BC",
        "Acc_B − global",
        "Acc_BC − global",
        "last Acc_B",
        "last Acc_BC",
        "paper",
    ]
    return markdown(head, lines)


def inputs() -> str:
    """Shared models, and fine-tuned ones, by scaling of inputs, network and clients."""
    tuned, lines = load("inputs"), []
    for label, (row,) in load("inputs_shared").items():
        pairs = [both(row, "shared")]
        for lr in RATES if tuned else ():
            pairs += [both(run) for run in tuned.get(f"{label}, lr={lr}", [])]
        lines.append([*label.split(", "), *(f"{a:.3f} / {b:.3f}" for a, b in pairs)])
    head = ["inputs", "network", "images of a client", "shared"]
    head += [f"fine-tuned, rate {rate:g}" for rate in RATES if tuned]
    return markdown(head, lines)


def counts() -> str:
    """How many conflicting examples CelebA has."""
    lines = []
    for row in load("shared")["celeba"]:
        each = row["conflicting"]
        cells = [sum(each), sum(c > 0 for c in each), max(each)]
        lines.append([str(row["seed"]), str(len(each)), *map(str, cells)])
    head = ["seed", "clients", "conflicting test examples", "clients with any", "most"]
    return markdown(head, lines)


def arms(problem: str) -> dict[str, list[Row]]:
    """Central with one map, federated with one map, federated with a map a client."""
    rows = load("fig4")
    return {
        "central, one map": rows[f"{problem}, central"],
        "federated, one map": rows[f"{problem}, federated, fixed map"],
        "federated, own maps": load("shared")[problem],
    }


def fig4() -> str:
    """The shared model in each of them."""
    lines = []
    for problem in HALVES:
        for arm, runs in arms(problem).items():
            if runs:
                found = over(runs, "shared")
                gap = found[:, 0] - found[:, 1]
                cells = [spread(v) for v in (*found.T, gap)]
                lines.append([problem, arm, str(len(runs)), *cells])
    head = ["data", "training", "runs", "Acc_B", "Acc_BC", "disparity"]
    return markdown(head, lines)


def fig6() -> str:
    """Rank correlations with the disparity, along fine-tuning and across clients."""
    lines = []
    names = {"transferability lost": "change", "ℓ_trans": "l_trans"}
    names |= {"distance ‖v−w‖": "distance", "step": "step"}
    for problem in PROBLEMS:
        tables = curves(problem, "finetune")
        early = curves(problem, "finetune, early")
        for label, name in names.items() if tables and early else ():
            cells = [_together(early, name), _along(early, name)]
            cells += [_together(tables, name), _along(tables, name)]
            cells += [_across(tables, name, at) for at in MOMENTS.values()]
            cells.append(_beyond(tables, name))
            lines.append([problem, label, *cells])
    head = ["data", "beside disparity"]
    for when in ("first 40 batches", "all batches"):
        head += [f"{when}, clients' mean", "… a client"]
    head += [f"across clients, {label}" for label in MOMENTS]
    head.append("… given distance")
    return markdown(head, lines)


def _steps(table: dict[str, np.ndarray], name: str) -> np.ndarray:
    """[steps, clients] of a quantity, or the number of the step."""
    if name != "step":
        return table[name]
    return np.repeat(
        table["steps"][:, None].astype(float), len(table["accuracy"][0]), 1
    )


def _together(tables: list[dict[str, np.ndarray]], name: str) -> str:
    """As the paper draws it: means over clients, moment by moment."""
    found = [
        rank(np.nanmean(_steps(t, name), axis=1), mean_curve(t, "disparity"))
        for t in tables
    ]
    return spread(np.array(found)).replace("± 0.", "± .")


def _along(tables: list[dict[str, np.ndarray]], name: str) -> str:
    found = [
        rank(_steps(t, name)[:, k], t["disparity"][:, k])
        for t in tables
        for k in range(t["disparity"].shape[1])
    ]
    return f"{np.nanmean(found):.2f}"


def _across(tables: list[dict[str, np.ndarray]], name: str, at: float) -> str:
    if name == "step":
        return "–"
    found = [rank(*moment(t, at, name, "disparity")) for t in tables]
    return spread(np.array(found)).replace("± 0.", "± .")


def _beyond(tables: list[dict[str, np.ndarray]], name: str) -> str:
    if name in ("step", "distance"):
        return "–"
    asked = (1.0, name, "disparity", "distance")
    each = [partial(*moment(table, *asked)) for table in tables]
    return f"{np.nanmean(each):.2f}"


def worth() -> str:
    """AUROC of "disparity above .1" from what an audit says."""
    rows, lines = load("table"), []
    for problem in PROBLEMS:
        every = [r for m in METHODS for r in of(rows, problem, m) if "audit" in r]
        groups = {m: [r for r in of(rows, problem, m) if "audit" in r] for m in METHODS}
        for label, runs in {"all methods": every, **groups}.items():
            if not runs:
                continue
            found = [auroc(runs, column) for column in SCORES.values()]
            above, below = found[0][1:]
            cells = ["–" if a != a else f"{a:.2f}" for a, _, _ in found]
            lines.append([problem, label, f"{above} of {above + below}", *cells])
    return markdown(["data", "models", "above .1", *SCORES], lines)


def fig8() -> str:
    """Disparity against how many conflicting examples clients have."""
    rows, lines = load("fig8"), []
    for label, runs in rows.items():
        method, _, factor = label.partition(", ")
        found = over(runs)
        gap = found[:, 0] - found[:, 1]
        lines.append([method, factor, *(spread(v) for v in (*found.T, gap))])
    return markdown(["method", "conflicting", "Acc_B", "Acc_BC", "disparity"], lines)


def malicious() -> str:
    """Return the shared models with malicious clients, and models trained alone."""
    lines = []
    for label, runs in load("hostile").items():
        *words, method = label.split(", ")
        found = over(runs, "shared" if method == "global" else "personal")
        lines.append([*words, method, str(len(runs)), *map(spread, found.T)])
    head = ["attack", "aggregator", "model", "runs", "Acc_B", "Acc_BC"]
    return markdown(head, sorted(lines, key=lambda line: line[:2]))


def tables() -> str:
    """All of them, as the page has them."""
    made = {f"Table 1, {problem}": main_table(problem) for problem in PROBLEMS}
    made["What inputs, network and clients change"] = inputs()
    made |= {"CelebA": counts(), "Fig. 4": fig4(), "Fig. 6": fig6(), "AUROC": worth()}
    made |= {"Fig. 8": fig8(), "Malicious clients": malicious()}
    return "\n\n".join(f"### {name}\n\n{text}" for name, text in made.items())
