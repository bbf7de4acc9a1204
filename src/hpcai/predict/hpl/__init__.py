"""Step model of HPL on nodes with processors and GPUs (Hu and Lu 2021, doi 10.1007/s11227-021-03829-x)."""
