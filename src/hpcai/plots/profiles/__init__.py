"""Figures of profiled runs and of the machine."""
