"""Commands for a whole campaign: its estimate, progress, state and resource use."""
