"""Two or more results beside each other: what changed, by how much, and whether that is more than chance."""

from hpcai.compare.comparison import Comparison, compare_folders
from hpcai.compare.history import history_of
from hpcai.compare.verdict import Regression, regress_folders

__all__ = ["Comparison", "Regression", "compare_folders", "history_of", "regress_folders"]
