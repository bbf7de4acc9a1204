"""Declarations of all figures and tables of the reports."""
