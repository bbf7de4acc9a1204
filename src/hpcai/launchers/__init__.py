"""Launchers, which start the ranks of a run: one module each, with all that is known of it."""
