"""The same experiment on a real federation, by Flower (extra `troth[flower]`).

`serve` and `take_part` are `troth server` and `troth client`; `server` and `client` are
the Flower apps that they run; `records` packs messages. `transport` alone uses what is
not Flower's public API.
"""
