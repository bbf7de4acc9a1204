"""MLPerf HPC: published rounds and own runs, the verdict of the rules, their analysis, and submissions."""
