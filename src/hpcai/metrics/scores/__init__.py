"""Scores of runs and results: VFLOPS, validity, ranking."""
