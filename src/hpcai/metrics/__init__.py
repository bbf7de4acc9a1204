"""Pure functions from run records and frames to scores: no files, no plots."""
