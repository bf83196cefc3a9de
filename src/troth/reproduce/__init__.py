"""Reproduce the tables and figures of five papers, and compare the numbers.

An entry is a table or figure. A cell is a number of a table or a point of a figure. One
JSON file per paper lists its entries and the numbers that it prints.
"""

SEEDS = 3
"""Default number of seeds per cell."""
