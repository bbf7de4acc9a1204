"""Figures of training results."""
