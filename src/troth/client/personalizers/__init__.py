"""Personalizers: methods by which a client gets its own model (`[personalizer]`)."""
