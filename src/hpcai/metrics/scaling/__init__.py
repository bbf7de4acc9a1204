"""Changes of results with the number of ranks."""
