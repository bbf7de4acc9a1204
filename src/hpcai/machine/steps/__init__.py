"""Training steps on one device, timed in a process of their own: no input pipeline, no exchange."""
