"""Scores and the analysis framework of the MLPerf HPC paper, for one round, several rounds and own runs together."""
