"""HLO text of XLA: modules, instructions, and the operations of convolutions and dots."""
