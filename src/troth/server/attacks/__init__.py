"""What malicious clients do to their messages (`[attack]`).

An attack that knows "all benign updates of the round" takes the malicious clients' own
updates for these in a round without benign clients.
"""
