"""What models are worth: scores per client, summaries over clients.

`evaluate` runs models on the clients' data, `scores` makes columns of it, `summary`
applies the `metrics` and `compare` tests one run against another.
"""
