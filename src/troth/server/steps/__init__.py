"""Update → next shared model (`[server]`); `server.server` runs the whole step."""
