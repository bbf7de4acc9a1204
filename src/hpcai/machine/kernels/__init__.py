"""The times of kernels and of reference steps, which the predictors learn from."""
