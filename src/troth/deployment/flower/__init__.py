"""Run an experiment as a real federation on Flower (extra `troth[flower]`).

`serve` and `take_part` implement `troth server` and `troth client`. `server` and
`client` are the Flower apps that these commands run. `records` packs messages, and
`keys` reads the cryptographic keys of sites. Only `transport` uses Flower's internal
API.
"""
