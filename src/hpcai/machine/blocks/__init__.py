"""Fused blocks of a training step: found in its graph, all timed in one call, in the order of a step."""
