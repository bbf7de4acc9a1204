"""Slurm through its commands: jobs, allocations, queue, accounting."""
