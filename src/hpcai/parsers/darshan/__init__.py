"""Darshan logs: check the structure, read them in guarded child processes, sum over processes."""
