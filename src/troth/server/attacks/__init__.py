"""Attacks: malicious clients replace the messages that they send (`[attack]`).

If a round has no benign client, an attack that knows "all benign updates of the round"
uses the original updates of the malicious clients instead.
"""
