"""Tables of Nsight Compute and Nsight Systems."""
