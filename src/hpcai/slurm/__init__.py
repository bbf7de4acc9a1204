"""Slurm, as far as its commands tell: jobs, allocations, queue, accounting."""
