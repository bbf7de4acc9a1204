"""Profiled runs: from their raw files to the tables that characterise a benchmark."""
