"""What hostile clients do to their messages (`[attack]`)."""
