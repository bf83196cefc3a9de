"""Print the table of README.md: our numbers, with the paper's in brackets.

python experiments/fashion_ditto/tables.py
"""

from __future__ import annotations

from pathlib import Path

from troth.reproduce.store import Store

ROOT = Path(__file__).parent
THREATS = ("clean", "A1 50%", "A3 20%")
PAPER = {  # Tables 4 and 8
    "shared": ((0.911, 0.08), (0.855, 0.10), (0.551, 0.13)),
    "local": ((0.876, 0.10), (0.876, 0.11), (0.874, 0.10)),
    "finetuning": ((0.945, 0.06), (0.935, 0.07), (0.871, 0.11)),
    "Ditto λ=0.1": ((0.929, 0.09), (0.909, 0.10), (0.903, 0.09)),
    "Ditto λ=1.0": ((0.946, 0.06), (0.935, 0.07), (0.831, 0.11)),
    "Ditto λ=2.0": ((0.945, 0.06), (0.935, 0.07), (0.785, 0.11)),
    "dynamic, paper": ((0.943, 0.06), (0.937, 0.07), (0.902, 0.09)),
    "dynamic, code": None,
    "dynamic, side by side": None,
}


def cell(row: str, threat: str, paper: tuple[float, float] | None) -> str:
    """Return weighted mean (std) and the paper's; empty if there is no run."""
    kind, label = "personal", row
    if row == "shared":
        kind, label = "shared", "Ditto λ=1.0"
    if row == "dynamic, side by side" and not threat.startswith("A3"):
        label = "dynamic, paper"  # with these candidates they are one
    run = Store(ROOT).get(f"table/{label}, {threat}, seed 0")
    if run is None:
        return ""
    found = run["summary"][kind]
    text = f"{found['accuracy_weighted']:.3f} ({found['accuracy_std']:.2f})"
    return text + (f" [{paper[0]:.3f} ({paper[1]:.2f})]" if paper else "")


def main() -> None:
    """Print the whole table in Markdown."""
    print("| | " + " | ".join(THREATS) + " |")
    print("|" + "---|" * 4)
    for row, paper in PAPER.items():
        beside = paper or (None,) * 3
        cells = [cell(row, t, p) for t, p in zip(THREATS, beside, strict=True)]
        print(f"| {row} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
