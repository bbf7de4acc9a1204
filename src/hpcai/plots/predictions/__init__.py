"""Figures of predictions and their errors."""
