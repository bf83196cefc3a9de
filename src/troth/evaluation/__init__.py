"""What models are worth: scores per client, summaries over clients.

`evaluate` runs models on the clients' data, scores all clients at once and sums them up
by the `metrics`.
"""
