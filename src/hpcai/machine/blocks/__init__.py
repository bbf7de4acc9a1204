"""Fused blocks of a training step: found in its graph, each timed in its own compiled function."""
