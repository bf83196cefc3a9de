"""Server steps: move the shared model by the aggregated update (`[server]`)."""
