"""The server: from the clients' messages to the next shared model.

`rules` gives each attack, filter, aggregator and step what it asks for, and records
whom it clipped, chose or weighed down; `server` takes a round's messages through them.
"""
