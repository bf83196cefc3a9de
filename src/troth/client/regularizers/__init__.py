"""Distance of a personal model from a shared one (`[regularizer]`)."""
