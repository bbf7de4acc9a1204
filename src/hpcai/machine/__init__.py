"""Measurements of a machine: ceilings, kernels, HPL, and the work of a training step."""
