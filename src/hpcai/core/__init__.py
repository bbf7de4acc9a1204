"""What everything else stands on: errors, files, units, and the clock of a node; it imports nothing of the library."""
