"""Kernel regressors: the time of one operation from its sizes."""
