"""How one client gets its own model (`[personalizer]`)."""
