"""What a machine can do, measured: ceilings, kernels, HPL, and the work of a training step."""
