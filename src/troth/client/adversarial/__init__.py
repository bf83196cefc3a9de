"""Adversarial inputs: small changes that raise a model's loss (`[adversarial]`)."""
