"""Training steps on one device, timed in a separate process: no input pipeline, no exchange."""
