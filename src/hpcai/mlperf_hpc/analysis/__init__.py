"""Scores and the analysis framework of the MLPerf HPC paper, for one round, several, and own runs together."""
