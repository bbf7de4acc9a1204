"""The only definition of a valid study, machine, benchmark and run table."""
