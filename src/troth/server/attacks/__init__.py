"""Attacks: malicious clients replace the messages that they send (`[attack]`).

An attack that knows "all benign updates of the round" uses the malicious clients' own
updates instead if no benign client takes part in the round.
"""
