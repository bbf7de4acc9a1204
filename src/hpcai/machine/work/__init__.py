"""The floating-point work and the layers of a training step."""
