"""Fused blocks of a network's training step: found in its graph, and timed each in a compiled function of its own."""
