"""What a hostile client does to its own data, before training (`[corruption]`)."""
