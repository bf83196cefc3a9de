"""The server: compute the next shared model from the clients' messages.

`rules` makes the attack, filters, aggregator and server step of an experiment, and
records which clients' updates they clipped, chose or downweighted. `server` applies
them to the messages of a round.
"""
