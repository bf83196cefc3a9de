"""Messages → messages, before they are aggregated (`[[filter]]`)."""
