"""Launchers, which start the ranks of a run: one module each, with everything specific to it."""
