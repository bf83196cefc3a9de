"""Evaluation of models: scores per client, and summaries over clients.

`evaluate` applies models to the clients' data, scores all clients at once, and
summarizes the scores by the `metrics`. `chosen` computes the further `scores` that an
experiment names. `paired` tests whether one method is better than another.
"""
