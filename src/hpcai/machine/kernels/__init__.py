"""Times of kernels and of reference steps, the training data of the predictors."""
