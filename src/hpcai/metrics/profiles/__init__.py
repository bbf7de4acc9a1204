"""Metrics from profiles: communication, kernels, counters, input, energy."""
