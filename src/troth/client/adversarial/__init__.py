"""Worst-case inputs of a model (`[adversarial]`)."""
