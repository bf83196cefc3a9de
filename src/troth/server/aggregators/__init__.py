"""Messages → one update (`[aggregator]`)."""
