"""The rank program: one training loop for all benchmarks and engines (`python -m hpcai.training`)."""
