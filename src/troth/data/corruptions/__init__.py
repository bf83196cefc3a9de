"""What a malicious client does to its own data, before training (`[corruption]`)."""
