"""HPL runs on this machine, and the rates of its routines."""
