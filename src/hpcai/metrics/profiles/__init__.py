"""What profiles say: communication, kernels, counters, input, energy."""
