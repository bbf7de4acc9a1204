"""MLPerf HPC: published rounds and own runs, compliance with the rules, analysis, and submissions."""
