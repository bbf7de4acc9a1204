"""Profiled runs: turns their raw files into the tables that characterise a benchmark."""
