"""HPL as it runs on this machine, and the rates of its routines."""
