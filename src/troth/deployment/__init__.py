"""Run the federation of an experiment on several machines.

A site is a client on its own machine. `site` trains on the site's data. `server` has
the shared model and combines updates. `protocol` checks the replies of sites. `state`
stores a site's state on disk. `log` records rounds. `processes` starts child processes
that end with this process. Only `flower` uses Flower, the library that sends messages.
"""
