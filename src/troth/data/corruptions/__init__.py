"""Corruptions: changes of malicious clients' data before training (`[corruption]`)."""
