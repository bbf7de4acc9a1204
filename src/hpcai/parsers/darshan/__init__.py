"""Darshan logs: structure checked first, read in guarded child processes, summed over processes."""
