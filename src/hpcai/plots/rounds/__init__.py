"""Figures of published rounds of MLPerf HPC."""
