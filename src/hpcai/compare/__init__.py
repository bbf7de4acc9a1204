"""Comparison of two or more results: what changed, by how much, and whether the change is significant."""

from hpcai.compare.comparison import Comparison, compare_folders
from hpcai.compare.history import history_of
from hpcai.compare.verdict import Regression, regress_folders

__all__ = ["Comparison", "Regression", "compare_folders", "history_of", "regress_folders"]
