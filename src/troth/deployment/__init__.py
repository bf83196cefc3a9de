"""Run the federation of an experiment between real machines.

`site` does a client's work on the site's own data. `server` holds the shared model and
combines updates. `protocol` checks the replies of sites. `state` stores a site's
personal state on disk. `log` records rounds. `processes` starts child processes that
end with this process. Only `flower` uses Flower, the library that carries the messages.
"""
