"""Filters: drop or change messages before they are aggregated (`[[filter]]`)."""
