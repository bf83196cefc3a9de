"""Server steps: change the shared model by the aggregated update (`[server]`)."""
