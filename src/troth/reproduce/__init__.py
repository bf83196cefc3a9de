"""Every table and figure of the papers by name: ours beside theirs.

A module a paper lists its entries; the file of numbers beside it holds what the paper
prints, and nothing else.
"""

SEEDS = 3
"""Of each cell, unless told."""
