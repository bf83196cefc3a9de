"""The server: from the clients' messages to the next shared model.

`rules` builds the attack, filters, aggregator and step of an experiment, and records
which clients they clipped, chose or downweighted. `server` applies them to the messages
of a round.
"""
