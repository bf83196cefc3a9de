"""Evaluation of models: scores per client, and summaries over clients.

`evaluate` runs models on the clients' data, scores all clients at once and summarizes
the scores with the `metrics`.
"""
