"""Filters: remove or change messages before they are aggregated (`[[filter]]`)."""
