"""examine."""
