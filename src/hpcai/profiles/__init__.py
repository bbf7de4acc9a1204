"""Profiled runs: turn their raw files into the tables that characterise a benchmark."""
