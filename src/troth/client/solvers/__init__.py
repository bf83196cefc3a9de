"""What one client does for the shared model (`[solver]`)."""
