"""The tables and figures of the papers: our numbers and those that the papers print.

One JSON file per paper lists its entries and its printed numbers.
"""

SEEDS = 3
"""Default number of seeds per cell."""
