"""The ceilings of a machine: arithmetic, memory, storage and the allreduce."""
