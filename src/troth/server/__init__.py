"""The server: from the clients' messages to the next shared model.

`server` takes a round's messages through `attacks`, `filters`, `aggregators` and
`steps`; `rules` gives each rule what it asks for; `verdicts` records whom a rule
clipped, chose or weighed down.
"""
