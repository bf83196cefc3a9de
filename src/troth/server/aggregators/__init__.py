"""Aggregators: combine the clients' messages into one update (`[aggregator]`)."""
