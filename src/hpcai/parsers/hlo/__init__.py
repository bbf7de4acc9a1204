"""XLA's HLO text: modules, instructions, and the operations of convolutions and dots."""
