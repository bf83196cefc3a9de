"""Update → next shared model (`[server]`)."""
