"""The same federation between real machines.

`site` does a client's work on its own data, `server` runs the rounds, `protocol` checks
what arrives, `state` keeps what must survive a restart, `log` records rounds,
`processes` starts what ends with it. Only `flower` knows Flower, which carries the
messages.
"""
