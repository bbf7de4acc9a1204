"""Figures of predictions and of how far they are off."""
