"""Statistics of repeated runs, and whether two sets of them differ."""
