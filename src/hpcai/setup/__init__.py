"""Write a study for a machine: query the machine, and mark every value that it does not report as a gap."""
